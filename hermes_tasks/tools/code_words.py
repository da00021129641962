"""What a text of Python, Perl, JavaScript and their like would start, decode or delete, well enough to judge it. Pure.

As with ``shell_words``: it finds what is written plainly, and text made to deceive it can.
"""

from __future__ import annotations

import re
from typing import Final

_LITERAL: Final = r"""[rfb]?(?:'[^'\n]{0,300}'|"[^"\n]{0,300}")"""
_STARTS: Final = re.compile(
    r"\b(?:system|popen|Popen|run|call|check_output|check_call|getoutput|shell_exec|passthru|exec\w{0,9}|spawn\w{0,9})"
    rf"\s{{0,9}}\(?\s{{0,9}}\[?\s{{0,9}}((?:{_LITERAL}\s{{0,9}},?\s{{0,9}}\[?){{1,12}})"
)
_TEXT: Final = re.compile(r"""'([^'\n]{0,300})'|"([^"\n]{0,300})\"""")
_BACKTICKS: Final = re.compile(r"`([^`\n]{1,300})`")
_RUNS_DECODED: Final = re.compile(
    r"\b(?:exec|eval|system|popen|Popen|run|call|compile|Function)\s{0,9}\(.{0,200}"
    r"(?:b64decode|b32decode|a85decode|fromhex|unhexlify|decompress|rot.?13|atob|base64_decode|Buffer\.from|unpack)"
)
_DELETES: Final = re.compile(
    r"""(?:rmtree|removedirs|unlink|remove|rmdir|rmSync|unlinkSync|rm_rf)\s{0,9}\(?\s{0,9}[rf]?['"]([^'"\n]{1,300})['"]"""
    r"""|Path\(\s{0,9}[rf]?['"]([^'"\n]{1,300})['"]\s{0,9}\)\.(?:unlink|rmdir)\b"""
)
_REMOVES_ALL: Final = re.compile(
    r"\brm\s{1,9}-[a-z]{0,9}[rR][a-z]{0,9}\s{1,9}(?:-\S{1,30}\s{1,9}){0,5}(?:/|~)(?:[\s'\"*`]|$)"
)
_FORKS_FOR_EVER: Final = re.compile(
    r"\bwhile\s{0,9}\(?\s{0,9}(?:True|true|1)\s{0,9}\)?\s{0,9}[:{]?\s{0,40}(?:os\.)?fork\b|\bfork\s{1,9}while\s{1,9}1\b"
)
_OTHERS_MEMORY: Final = re.compile(
    r"/proc/[^/\s'\"]{0,40}/(?:task/[^/\s'\"]{1,40}/)?(?:environ|mem|env?\S{0,5}[*?\[]|\*)"
)


def starts(code: str) -> list[str]:
    """Command lines that the code hands to a shell, or starts word by word."""
    found = [" ".join(a or b for a, b in _TEXT.findall(call)) for call in _STARTS.findall(code)]
    return [*found, *_BACKTICKS.findall(code)]


def deletes(code: str) -> list[str]:
    """Paths that it deletes."""
    return [a or b for a, b in _DELETES.findall(code)]


def removes_everything(code: str) -> bool:
    """It has the text of the plainest of all dangerous commands somewhere."""
    return _REMOVES_ALL.search(code) is not None


def runs_decoded(code: str) -> bool:
    """It runs what it decodes."""
    return _RUNS_DECODED.search(code) is not None


def forks_for_ever(code: str) -> bool:
    """It makes processes without end."""
    return _FORKS_FOR_EVER.search(code) is not None


def reads_others_memory(word: str) -> bool:
    """It names the memory or environment of a process."""
    return _OTHERS_MEMORY.search(word) is not None
