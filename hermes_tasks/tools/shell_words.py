"""Takes a command line of sh apart into simple commands, well enough to judge it before it runs. Pure.

It knows quotes, escapes, substitutions, here-documents, pipes, redirections, and variables set in the same text; a
variable nobody set is empty, as it would be in the clean environment of the terminal. It is no shell: what it cannot
read comes out as words, and text made to deceive it can.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

#: Stands in a word for what only running the command would tell.
UNKNOWN: Final = "\ufffc"
_DEPTH: Final = 8
_VALUE_CHARS: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_KEYWORDS: Final = frozenset(
    (
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "do",
        "done",
        "while",
        "until",
        "case",
        "esac",
        "{",
        "}",
        "!",
        "time",
        "function",
    )
)
_ASSIGN: Final = ("export", "declare", "typeset", "readonly", "local", "env")
_SET_BY_OTHERS: Final = ("for", "read", "select", "getopts")
_OPERATORS: Final = ("&&", "||", ";;", "|&", "|", ";", "&", "\n", "(", ")")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|0?([0-7]{1,3})|(.))", re.DOTALL)
_REDIRECTION: Final = re.compile(r"(?:\d*|&)(<<<|<<-?|<>|<&|>>|>\||>&|<|>)(?!\()")


@dataclass(slots=True)
class Simple:
    """One simple command, its words without quotes.

    Attributes:
        words: name and arguments; assignments before the name are left out.
        writes, reads: files named by redirections.
        fed: texts given by here-documents.
        piped: it reads what another command prints.
        inner: the commands of substitutions in its words.
    """

    words: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    fed: list[str] = field(default_factory=list)
    piped: bool = False
    inner: list[Simple] = field(default_factory=list)


def simple_commands(text: str, *, known: dict[str, str] | None = None, depth: int = 0) -> list[Simple]:
    """All simple commands of ``text`` in the order of their ends, those of substitutions included.

    Args:
        known: variables and their values; what the text sets is added to it.
    """
    return _Reader(text.replace("\\\n", ""), known if known is not None else {}, depth).commands()


def _printed(command: Simple) -> str:
    """What a command prints, where its words say it."""
    match command.words:
        case ["echo", *words] | ["printf", "%s", *words]:
            return _unescaped(" ".join(words))
        case ["printf", text]:
            return _unescaped(text)
        case ["which" | "type" | "command", *_, name]:
            return name
        case ["pwd"]:
            return "."
    return UNKNOWN


def _unescaped(text: str) -> str:
    r"""``\x72``, ``\162`` and ``\n`` as the characters they stand for."""
    return _ESCAPE.sub(lambda match: _character(*match.groups()), text)


def _character(byte: str | None, code: str | None, octal: str | None, letter: str | None) -> str:
    if hexadecimal := byte or code:
        return chr(int(hexadecimal, 16))
    return chr(int(octal, 8)) if octal else {"n": "\n", "t": "\t", "r": "\r"}.get(letter or "", letter or "")


class _Reader:
    def __init__(self, text: str, known: dict[str, str], depth: int) -> None:
        self._text, self._known, self._depth = text, known, depth
        self._at = 0
        self._done: list[Simple] = []
        self._now = Simple()
        self._documents: list[tuple[Simple, str, bool]] = []

    def commands(self) -> list[Simple]:
        while self._at < len(self._text):
            if self._text[self._at] in " \t\r":
                self._at += 1
            elif self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = end if end >= 0 else len(self._text)
            elif redirection := _REDIRECTION.match(self._text, self._at):
                self._redirection(redirection)
            elif operator := next((o for o in _OPERATORS if self._text.startswith(o, self._at)), None):
                self._at += len(operator)
                self._end(piped=operator in ("|", "|&"))
                if operator == "\n":
                    self._read_documents()
            else:
                self._take(self._word())
        self._end(piped=False)
        return self._done

    def _take(self, words: list[str]) -> None:
        for word in words:
            assignment = _ASSIGNMENT.fullmatch(word)
            if not self._now.words and assignment:
                self._known[assignment[1]] = assignment[2][:_VALUE_CHARS]  # x=$x$x doubles
            elif self._now.words or word not in _KEYWORDS:
                self._now.words.append(word)

    def _end(self, *, piped: bool) -> None:
        words = self._now.words
        if words and words[0] in _ASSIGN:
            given = filter(None, map(_ASSIGNMENT.fullmatch, words[1:]))
            self._known |= {match[1]: match[2][:_VALUE_CHARS] for match in given}
        if words and words[0] in _SET_BY_OTHERS:
            self._known |= {word: UNKNOWN for word in words[1:] if _NAME.fullmatch(word)}
        if words or self._now.writes or self._now.inner:
            self._done.append(self._now)
        self._now = Simple(piped=piped)

    def _redirection(self, match: re.Match[str]) -> None:
        self._at = match.end()
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        begin = self._at
        word = "".join(self._word())
        if match[1] in ("<<", "<<-"):
            quoted = any(char in "'\"\\" for char in self._text[begin : self._at])
            self._documents.append((self._now, word, quoted))
        elif match[1] == "<<<":
            self._now.fed.append(word)
        elif match[1] in ("<", "<>"):
            self._now.reads.append(word)
        elif match[1] != "<&" and not word.isdigit():
            self._now.writes.append(word)

    def _read_documents(self) -> None:
        for command, delimiter, quoted in self._documents:
            lines: list[str] = []
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                end = end if end >= 0 else len(self._text)
                line = self._text[self._at : end]
                self._at = end + 1
                if line.strip("\t") == delimiter:
                    break
                lines.append(line)
            body = "\n".join(lines)
            command.fed.append(body)
            if not quoted:  # the shell still runs the substitutions in it
                inner = _Reader(f'"{body}"', self._known, self._depth + 1) if self._depth < _DEPTH else None
                self._done += inner.substitutions() if inner else []
        self._documents.clear()

    def substitutions(self) -> list[Simple]:
        """Only the commands of substitutions, of a text that is one quoted word."""
        self._word()
        return self._done

    def _word(self) -> list[str]:
        """The word that begins here; more than one where the value of something unquoted has spaces."""
        parts = [""]
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\r\n;&|()" or (char in "<>" and not self._text.startswith(("<(", ">("), self._at)):
                break
            if char == "'":
                parts[-1] += self._until("'")
            elif char == '"':
                parts[-1] += self._double_quoted()
            elif char == "\\":
                parts[-1] += self._text[self._at + 1 : self._at + 2]
                self._at += 2
            elif self._text.startswith(("$IFS", "${IFS"), self._at):
                self._variable()
                parts.append("")
            else:
                splits = char in "$`" and not self._text.startswith("$'", self._at)
                first, *more = self._piece().split(" ") if splits else [self._piece()]
                parts[-1] += first
                parts += more
        return [part for part in parts if part] or parts[:1]

    def _double_quoted(self) -> str:
        self._at += 1
        text = ""
        while self._at < len(self._text) and self._text[self._at] != '"':
            if self._text[self._at] == "\\":
                text += self._text[self._at + 1 : self._at + 2]
                self._at += 2
            else:
                text += self._piece(quoted=True)
        self._at += 1
        return text

    def _piece(self, *, quoted: bool = False) -> str:
        """One character, or the value of what begins with ``$``, a backtick or ``<(``."""
        if self._text.startswith("$'", self._at) and not quoted:
            self._at += 1
            return _unescaped(self._until("'"))
        if self._text.startswith("$(", self._at) or (not quoted and self._text.startswith(("<(", ">("), self._at)):
            return self._substitution(self._matching())
        if self._text[self._at] == "`":
            return self._substitution(self._until("`"))
        if self._text[self._at] == "$":
            return self._variable()
        self._at += 1
        return self._text[self._at - 1]

    def _substitution(self, body: str) -> str:
        if self._depth >= _DEPTH:
            return UNKNOWN
        inner = simple_commands(body, known=dict(self._known), depth=self._depth + 1)
        self._now.inner += inner
        self._done += inner
        return _printed(inner[0]) if len(inner) == 1 else UNKNOWN

    def _variable(self) -> str:
        """The value of ``$NAME`` or ``${NAME…}``: what the text set, $HOME as itself, everything unset as nothing."""
        if self._text.startswith("${", self._at):
            name = _NAME.match(self._text, self._at + 2)
            body = self._until("}")
            if name is None:
                return UNKNOWN  # a length, a number
            rest = body[len(name[0]) + 1 :]
            if rest and self._depth < _DEPTH:
                inner = _Reader(f'"{rest.lstrip(":-=")}"', self._known, self._depth + 1)
                default = "".join(inner._word())
                self._done += inner._done
                return default if rest.startswith((":-", "-", ":=", "=")) and not self._value(name[0]) else UNKNOWN
            return self._value(name[0]) if not rest else UNKNOWN
        name = _NAME.match(self._text, self._at + 1)
        if name is None:  # $1, $@, $$, or a plain dollar
            self._at += 2
            return UNKNOWN
        self._at = name.end()
        return self._value(name[0])

    def _value(self, name: str) -> str:
        return self._known.get(name, {"HOME": "~", "PWD": ".", "PATH": UNKNOWN, "OLDPWD": UNKNOWN}.get(name, ""))

    def _until(self, end: str) -> str:
        """The text between here, where an opening mark stands, and ``end``."""
        begin = self._at + 1
        at = self._text.find(end, begin)
        self._at = at + 1 if at >= 0 else len(self._text)
        return self._text[begin : at if at >= 0 else len(self._text)]

    def _matching(self) -> str:
        """The text inside the parentheses that begin here (after ``$``, ``<`` or ``>``)."""
        begin = self._at + 2
        at, open_ = begin, 1
        while at < len(self._text) and open_:
            char = self._text[at]
            if char == "\\":
                at += 1
            elif char == "'":
                closing = self._text.find("'", at + 1)
                at = closing if closing >= 0 else len(self._text)
            open_ += {"(": 1, ")": -1}.get(char, 0)
            at += 1
        self._at = at
        return self._text[begin : at - 1 if not open_ else at]
