"""Searches a directory. Run by path by ``search``, see ``aside`` for how; imports the standard library only.

A process of its own, because a regular expression can take for ever and nothing can stop it inside a thread: the
kernel ends this process when its time is up. The question is ``{root, below, pattern, glob, uid, seconds, most_hits,
most_files}``; the answer is ``{hits, stopped}`` or ``{error}``.
"""

import contextlib
import fnmatch
import json
import os
import re
import resource
import signal
import stat
import sys
import time
import unicodedata  # noqa: F401 - a pattern may need it when the interpreter's files are no longer readable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SHOWN_CHARS = 200
#: Shown before a match that stands far to the right.
_BEFORE_CHARS = 60
#: A longer line is searched in pieces of this size.
_PIECE_BYTES = 1024 * 1024
_MEMORY_BYTES = 1024 * 1024 * 1024
_SKIPPED = (".git", ".tmp")


def main() -> None:
    """Search once and print what was found."""
    asked = json.loads(sys.stdin.readline())
    signal.alarm(int(asked["seconds"]) + 2)  # not handled, so it ends the process whatever it is doing
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    os.chdir(asked["root"])  # the user may not be able to pass the directories above
    if asked["uid"] is not None:
        os.setgroups([])
        os.setgid(asked["uid"])
        os.setuid(asked["uid"])
    sys.stdout.write(json.dumps(_found(asked)) + "\n")


def _found(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        pattern = re.compile(asked["pattern"]) if asked["pattern"] else None
    except (re.error, OverflowError, RecursionError) as error:
        return {"error": f"not a regular expression of Python: {error}"}
    if not Path(asked["below"]).exists():
        return {"error": f"{_shown(asked['below'])} does not exist in the workspace"}
    globs = _globs(asked["glob"])
    deadline = time.monotonic() + asked["seconds"]
    hits: list[str] = []
    looked = 0
    for name in _names(asked["below"]):
        if looked >= asked["most_files"] or len(hits) >= asked["most_hits"] or time.monotonic() > deadline:
            return {"hits": hits, "stopped": looked}
        if not any(glob.match(name) or glob.match(Path(name).name) for glob in globs):
            continue
        looked += 1
        if pattern is None:
            hits.append(_shown(name))
        else:
            for hit in _matches(name, pattern, deadline):
                hits.append(hit)
                if len(hits) >= asked["most_hits"]:
                    break
    done = len(hits) < asked["most_hits"] and time.monotonic() < deadline
    return {"hits": hits, "stopped": None if done else looked}


def _globs(glob: str) -> list[re.Pattern[str]]:
    """``*`` matches slashes as well, and ``**/`` also no directory at all."""
    return [re.compile(fnmatch.translate(form)) for form in {glob, glob.replace("**/", "")}]


def _names(below: str) -> Iterator[str]:
    if Path(below).is_file():
        yield below
    for folder, folders, files in os.walk(Path(below), followlinks=False):
        folders[:] = sorted(set(folders).difference(_SKIPPED))
        for file in sorted(files):
            yield str(Path(folder, file))


def _matches(name: str, pattern: re.Pattern[str], deadline: float) -> Iterator[str]:
    """``file:line: text`` for each matching line of a text file, until the time is up."""
    with contextlib.suppress(OSError):  # gone meanwhile, a link, or not readable for the user
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(file, "rb") as stream:
            if not stat.S_ISREG(os.fstat(file).st_mode) or b"\0" in stream.read(8192):
                return
            stream.seek(0)
            number = 1
            while (piece := stream.readline(_PIECE_BYTES)) and time.monotonic() < deadline:
                line = piece.decode(errors="replace").rstrip("\r\n")
                if found := pattern.search(line):
                    yield f"{_shown(name)}:{number}: {_around(line, found.start())}"
                number += piece.endswith(b"\n")


def _around(line: str, at: int) -> str:
    begin = max(0, at - _BEFORE_CHARS) if at > _SHOWN_CHARS - _BEFORE_CHARS else 0
    return ("…" if begin else "") + line[begin : begin + _SHOWN_CHARS].strip()


def _shown(name: str) -> str:
    """The name as one line of text: bytes that are none would break whoever stores the answer."""
    text = os.fsencode(name).decode(errors="replace")
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


if __name__ == "__main__":
    main()
