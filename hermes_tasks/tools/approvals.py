"""Commands that no unattended run may make, refused at once.

By every road that can be read: directly, in ``sh -c``, through a variable, an alias or a function, in the background,
in another interpreter, in a script of the workspace, or in one that the command itself writes first.
This is a seat belt against a model's slip or a plain attempt, not a sandbox: it reads the text of a command, and there
is no end to the ways in which a text can be disguised. What a command can reach is decided by the sandbox.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hermes_tasks.tools import code_words
from hermes_tasks.tools.deeds import SHELLS, deed, is_known, overwrites_device, words
from hermes_tasks.tools.shell_words import UNKNOWN, Simple, simple_commands

#: The text of a script in the workspace, or None when there is none.
Script = Callable[[str], str | None]

_DEPTH: Final = 4
_SCRIPT_CHARS: Final = 64_000
_LOOKED_AT: Final = 20
_INTERPRETERS: Final = re.compile(r"(?:python|perl|ruby|node|php|lua)[\d.]*")
#: Programs whose arguments may be code of their own, in which other commands are called.
_LANGUAGES: Final = words("awk gawk mawk sed vi vim ex ed expect tclsh")
_WRAPPERS: Final = words(
    "env nohup nice ionice time timeout stdbuf setsid exec command builtin xargs busybox chronic watch flock unbuffer "
    "coproc systemd-run taskset chrt setarch"
)
#: They run an argument, as a whole text or word by word.
_RUNNERS: Final = words("xargs find flock watch env trap alias ssh script parallel coproc systemd-run entr") | {UNKNOWN}
_PLAIN: Final = ("xargs", "env")
_EXECUTES: Final = ("-exec", "-execdir", "-ok", "-okdir")
_FETCHERS: Final = words("curl wget fetch nc ncat base64 base32 xxd openssl")
_FORK_BOMB: Final = re.compile(
    r"(?<![\w:.-])([\w:.-]{1,40})\s{0,9}\(\s{0,9}\)\s{0,9}\{[^}]{0,200}\1\s{0,9}\|\s{0,9}\1\s{0,9}&"
)
_FUNCTION: Final = re.compile(
    r"(?<![\w.-])(?:function\s{1,9})?([A-Za-z_][\w.-]{0,60})\s{0,9}\(\s{0,9}\)|\bfunction\s{1,9}(\w+)"
)
_ONLY_TALK: Final = frozenset({"echo", "printf", "git", "true", ":"})
_COPIES: Final = ("cp", "mv", "ln", "install")
_READ_BY_SHELLS: Final = ("ENV", "BASH_ENV")
_RUN_BY_SHELLS: Final = ("PROMPT_COMMAND", "PS4")
_SETTINGS: Final = ("HERMES_TASKS_", "OPENAI_")
_HOME: Final = re.compile(r"(?:^|/)\.hermes-tasks(?:/|$)")
_FETCHED: Final = "it runs what it fetches or decodes"
_PIPED: Final = "it runs what a pipe gives it; write the commands themselves"
_COMMAND_FLAG: Final = re.compile(r"-\w*c\w*")
_WITH_VALUE: Final = ("-o", "+o", "-O", "+O", "--rcfile", "--init-file")
_FREE: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - named, not used
_AMOUNT: Final = re.compile(r"-.*|[\d.]+[smhd]?|\w+=.*|\{\}")


def refused(command: str, script: Script = lambda _: None, workspace: Path | None = None) -> str | None:
    """Why this command may not run, in words that follow "denied:", or None.

    Args:
        script: reads a script that the command would run.
        workspace: absolute paths below it are the command's own.
    """
    if _FORK_BOMB.search(command):
        return "it is a fork bomb"
    return _Judge(script, str(workspace) if workspace else None).text(command)


@dataclass(slots=True)
class _Judge:
    """Judges one command line.

    Attributes:
        cwd: where ``cd`` went.
        known: its variables.
        functions: names it gives to commands of its own.
        made: files it writes, and what it writes into them as far as that can be read.
        fetched: names of files whose content it fetches or decodes.
    """

    script: Script
    workspace: str | None
    depth: int = 0
    cwd: str | None = "."
    known: dict[str, str] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    made: dict[str, str] = field(default_factory=dict)
    fetched: set[str] = field(default_factory=set)

    def text(self, text: str) -> str | None:
        """Judge a text of sh, which may be a script."""
        if self.depth > _DEPTH:
            return "it hides commands in commands"
        self.depth += 1
        try:
            text = text[:_SCRIPT_CHARS]
            self.functions.update(name for names in _FUNCTION.findall(text) for name in names if name)
            before = Simple()
            for command in simple_commands(text, known=self.known):
                if why := self._simple(command, before):
                    return why
                before = command
            return self._variables()
        finally:
            self.depth -= 1

    def _variables(self) -> str | None:
        """What a shell does with variables of certain names."""
        if any(name.startswith(_SETTINGS) for name in self.known):
            return "it changes the settings of the service that runs it"
        texts = [self._script(self.known[name]) for name in _READ_BY_SHELLS if name in self.known]
        texts += [self.known[name] for name in _RUN_BY_SHELLS if name in self.known]
        return self._first(self.text, texts)

    def _simple(self, command: Simple, before: Simple) -> str | None:
        words_ = _unwrapped(command.words)
        if why := self._first(self._written, command.writes):
            return why
        self._remember(words_, command, before)
        if not words_:
            return None
        name, args = posixpath.basename(words_[0]), words_[1:]
        if posixpath.basename(command.words[0]) == "xargs":
            args = [*args, *" ".join(command.fed or _said(before)).split()[:_LOOKED_AT]]
        if name not in _ONLY_TALK and any(map(code_words.reads_others_memory, [*args, *command.reads])):
            return "it reads the memory or environment of a process"
        if name in ("cd", "pushd"):
            self._cd(args)
        if words_[0].startswith("/") and re.search(r"[*?\[]", words_[0]):
            return "it hides the name of what it runs"
        return deed(name, args, self._outside) or self._nested(words_[0], name, args, command)

    def _written(self, target: str) -> str | None:
        if overwrites_device(target):
            return "it overwrites a device"
        if _HOME.search(target):
            return "it changes the settings of the service that runs it"
        outside = self._outside(target) and not target.startswith("/dev/")
        return "it writes outside the workspace" if outside else None

    def _nested(self, path: str, name: str, args: list[str], command: Simple) -> str | None:
        """What a shell, ``eval``, ``source``, another interpreter, a script or a runner of commands would run."""
        if name in SHELLS or name in ("eval", "source", "."):
            return self._shell(name, _without_values(args), command)
        if _INTERPRETERS.fullmatch(name):
            return self._interpreter(args, command)
        if name in _LANGUAGES:
            return self._first(self._code, args)
        if name in ("make", "gmake"):
            named = [args[n + 1] for n, arg in enumerate(args[:-1]) if arg == "-f"] or ["Makefile", "makefile"]
            return _DELETES if any(map(code_words.removes_everything, map(self._script, named))) else None
        first = posixpath.basename(command.words[0])
        if first in _RUNNERS or name in _RUNNERS or name in self.functions or UNKNOWN in name:
            return self._runner(first, command.words[1:])
        return self._executed(path) if "/" in path and not path.startswith("/") else None

    def _shell(self, name: str, args: list[str], command: Simple) -> str | None:
        if _FETCHERS.intersection(_names(command.inner)):
            return _FETCHED
        if name == "eval":
            return self.text(" ".join(args))
        operands = [arg for arg in args if not arg.startswith("-")]
        if name not in SHELLS:
            return self._first(self._run_script, operands[:1])
        if any(_COMMAND_FLAG.fullmatch(arg) for arg in args):
            return self.text(operands[0]) if operands else None
        if operands and "-s" not in args:
            return self._run_script(operands[0])
        if command.piped:
            return _PIPED
        return self._first(self.text, command.fed) or self._first(self._run_script, command.reads)

    def _interpreter(self, args: list[str], command: Simple) -> str | None:
        operands = [arg for arg in args if not arg.startswith("-")]
        if command.piped and not [arg for arg in args if arg != "-"]:
            return _PIPED
        if "-m" in args[:-1] and args[args.index("-m") + 1].partition(".")[0] in ("hermes_tasks", "celery"):
            return "it controls the service that runs it"
        if operands and self._is_fetched(operands[0]):
            return _FETCHED
        return self._first(self._code, [*args, *command.fed, *map(self._script, operands[:1])])

    def _runner(self, first: str, args: list[str]) -> str | None:
        """Judge arguments as texts, and what stands behind the first of them that names something dangerous."""
        if first == "find":
            args = args[next((n for n, arg in enumerate(args) if arg in _EXECUTES), len(args)) + 1 :]
        texts = [arg.partition("=")[2] if first == "alias" else arg for arg in args[:_LOOKED_AT]]
        if why := self._first(self.text, [text for text in texts if " " in text]):
            return why
        if first in _PLAIN:
            return None  # what they run was judged as if it stood alone
        at = next((n for n, arg in enumerate(args) if is_known(posixpath.basename(arg))), None)
        return None if at is None else self._simple(Simple(words=args[at:]), Simple())

    def _code(self, text: str) -> str | None:
        """Judge a text of another language."""
        text = text[:_SCRIPT_CHARS]
        if code_words.reads_others_memory(text):
            return "it reads the memory or environment of a process"
        if code_words.forks_for_ever(text):
            return "it is a fork bomb"
        if code_words.removes_everything(text) or any(map(self._outside, code_words.deletes(text))):
            return _DELETES
        return _FETCHED if code_words.runs_decoded(text) else self._first(self.text, code_words.starts(text))

    def _run_script(self, path: str) -> str | None:
        return _FETCHED if self._is_fetched(path) else self.text(self._script(path))

    def _executed(self, path: str) -> str | None:
        if self._is_fetched(path):
            return _FETCHED
        text = self._script(path)
        first = text.partition("\n")[0]
        other = first.startswith("#!") and not SHELLS.intersection(re.split(r"[/\s]+", first))
        return self._code(text) if other else self.text(text)

    def _remember(self, words_: list[str], command: Simple, before: Simple) -> None:
        """Keep what is written into which file."""
        name, operands = "", list[str]()
        if words_:
            name, operands = posixpath.basename(words_[0]), [arg for arg in words_[1:] if not arg.startswith("-")]
        tee = operands if name == "tee" else []
        if name in _FETCHERS:
            self.fetched.update(map(posixpath.basename, [*operands, *command.writes]))
        elif command.piped and _FETCHERS.intersection(_names([before])):
            self.fetched.update(map(posixpath.basename, [*tee, *command.writes]))
        if name in _COPIES and len(operands) > 1:
            self.made[self._path(operands[-1])] = self._script(operands[0])
        for target in [*command.writes, *tee]:
            self.made[self._path(target)] = "\n".join(command.fed or _said(command) or _said(before))

    def _is_fetched(self, path: str) -> bool:
        return posixpath.basename(path) in self.fetched

    def _script(self, path: str) -> str:
        if UNKNOWN in path or self.cwd is None:
            return ""
        place = self._path(path)
        return self.made[place] if place in self.made else self.script(place) or ""

    def _path(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.cwd or ".", path))

    def _cd(self, args: list[str]) -> None:
        target = next((arg for arg in args if not arg.startswith("-")), "~")
        if UNKNOWN in target or "-" in args or self.cwd is None:
            self.cwd = None
        else:
            self.cwd = posixpath.normpath(posixpath.join(self.cwd, target))

    def _outside(self, target: str) -> bool:
        """True for a path outside the workspace and the places for temporary files, and for the workspace itself."""
        if not target or target.startswith(UNKNOWN) or (self.cwd is None and not target.startswith(("/", "~"))):
            return False
        path = posixpath.normpath(posixpath.join(self.cwd or ".", target))
        path = "/" + path.lstrip("/") if path.startswith("/") else path
        if self.workspace and (path == self.workspace or path.startswith(f"{self.workspace}/")):
            path = "~" + path.removeprefix(self.workspace)
        if path.startswith("/"):
            return not path.startswith(tuple(f"{free}/" for free in _FREE))
        return path in ("~", "~/*", "..") or path.startswith("../")

    @staticmethod
    def _first(judge: Callable[[str], str | None], texts: Iterable[str]) -> str | None:
        return next((why for text in texts if (why := judge(text))), None)


_DELETES: Final = "it deletes outside the workspace"


def _unwrapped(words_: list[str]) -> list[str]:
    """Without ``env X=1``, ``timeout 5``, ``xargs -n 1`` and their like before the real name."""
    while words_ and posixpath.basename(words_[0]) in _WRAPPERS:
        words_ = words_[1:]
        while words_ and _AMOUNT.fullmatch(words_[0]):
            words_ = words_[1:]
    return words_


def _without_values(args: list[str]) -> list[str]:
    return [arg for n, arg in enumerate(args) if n == 0 or args[n - 1] not in _WITH_VALUE]


def _said(command: Simple) -> list[str]:
    """What ``echo`` and ``printf`` print; of other commands nothing is known."""
    return [" ".join(command.words[1:])] if command.words[:1] in (["echo"], ["printf"]) else []


def _names(commands: Sequence[Simple]) -> set[str]:
    return {posixpath.basename(words_[0]) for command in commands if (words_ := _unwrapped(command.words))}
