"""Commands that no unattended run may make, refused at once.

By every road that can be read: directly, in ``sh -c``, through a variable, in a script of the workspace.
This is a seat belt against a model's slip or a plain attempt, not a sandbox: it reads the text of a command, and text
can be disguised. What a command can reach is limited by the runner (user, privileges, limits) and by the sandbox.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hermes_tasks.tools.shell_words import UNKNOWN, Simple, simple_commands

#: The text of a script in the workspace, or None when there is none.
Script = Callable[[str], str | None]

_DEPTH: Final = 4
_SCRIPT_CHARS: Final = 64_000


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "fish"})
_INTERPRETERS: Final = re.compile(r"(?:python|perl|ruby|node|php|lua)[\d.]*")
_WRAPPERS: Final = _words(
    "env nohup nice ionice time timeout stdbuf setsid exec command builtin xargs busybox chronic watch flock unbuffer"
)
_FETCHERS: Final = _words("curl wget fetch nc ncat base64 base32 xxd openssl")
_REASONS: Final = {
    "it asks for another user's rights": _words("sudo su doas pkexec runuser nsenter chroot newgrp"),
    "it stops the machine": _words("shutdown reboot halt poweroff telinit kexec"),
    "it writes to a disk below its files": _words("wipefs fdisk sfdisk parted blkdiscard mkswap mke2fs"),
    "it changes the running system": _words(
        "mount umount swapon swapoff insmod modprobe rmmod iptables ip6tables nft useradd usermod userdel groupadd "
        "passwd chpasswd visudo setcap crontab at"
    ),
    "it controls the service that runs it": _words("hermes-tasks celery supervisorctl valkey-cli redis-cli"),
}
_BY_NAME: Final = {name: reason for reason, names in _REASONS.items() for name in names}
_SYSTEMCTL: Final = _words("poweroff reboot halt kexec suspend hibernate stop restart disable mask isolate kill")
_OWN: Final = re.compile(r"hermes|celery|valkey|redis|supervisor", re.IGNORECASE)
_FORK_BOMB: Final = re.compile(
    r"(?<![\w:.-])([\w:.-]{1,40})\s{0,9}\(\s{0,9}\)\s{0,9}\{[^}]{0,200}\1\s{0,9}\|\s{0,9}\1\s{0,9}&"
)
_OTHERS_MEMORY: Final = re.compile(
    r"/proc/[^/\s'\"]{1,40}/(?:task/[^/\s'\"]{1,40}/)?(?:environ|mem|env?\S{0,5}[*?\[]|\*)"
)
_CODE: Final = re.compile(
    r"\brm\s{1,9}-[a-z]{0,9}[rR][a-z]{0,9}\s{1,9}(?:-\S{1,30}\s{1,9}){0,5}(?:/|~)(?:[\s'\"*]|$)|rmtree\(\s*[rf]?['\"](?:/|~)['\"]"
)
_ONLY_TALK: Final = frozenset({"echo", "printf", "git", "true", ":"})
_PIPED: Final = "it runs what a pipe gives it; write the commands themselves"
_COMMAND_FLAG: Final = re.compile(r"-\w*c\w*")
_DEVICES: Final = re.compile(r"/dev/(?:null|zero|full|stdin|stdout|stderr|tty|fd/\d+)")
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
    """Judges one command line; remembers where ``cd`` went."""

    script: Script
    workspace: str | None
    depth: int = 0
    cwd: str | None = "."
    known: dict[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str | None:
        """Judge a text of sh, which may be a script."""
        if self.depth > _DEPTH:
            return "it hides commands in commands"
        self.depth += 1
        try:
            commands = simple_commands(text[:_SCRIPT_CHARS], known=self.known)
            return next((why for command in commands if (why := self._simple(command))), None)
        finally:
            self.depth -= 1

    def _simple(self, command: Simple) -> str | None:
        words = _unwrapped(command.words)
        for target in command.writes:
            if target.startswith("/dev/") and not _DEVICES.fullmatch(target):
                return "it overwrites a device"
            if self._outside(target) and not target.startswith("/dev/"):
                return "it writes outside the workspace"
        if not words:
            return None
        name, args = posixpath.basename(words[0]), words[1:]
        if name not in _ONLY_TALK and any(_OTHERS_MEMORY.match(word) for word in [*args, *command.reads]):
            return "it reads the memory or environment of a process"
        if name == "cd":
            self._cd(args)
        return self._by_name(name, args) or self._nested(words[0], name, args, command)

    def _by_name(self, name: str, args: list[str]) -> str | None:
        if name in _BY_NAME:
            return _BY_NAME[name]
        if name.startswith("mkfs"):
            return "it formats a disk"
        if name in ("systemctl", "service") and _SYSTEMCTL.intersection(args):
            return "it stops services"
        if name == "init" and args[:1] in (["0"], ["6"]):
            return "it stops the machine"
        if name in ("kill", "pkill", "killall"):
            return _kills(name, args)
        return self._on_files(name, args)

    def _on_files(self, name: str, args: list[str]) -> str | None:
        operands = [arg for arg in args if not arg.startswith("-")]
        flags = "".join(arg for arg in args if arg.startswith("-"))
        if name in ("dd", "tee", "cp", "mv", "shred", "truncate"):
            targets = [arg.removeprefix("of=") for arg in operands if not arg.startswith("if=")]
            if any(target.startswith("/dev/") and not _DEVICES.fullmatch(target) for target in targets):
                return "it overwrites a device"
        if name in ("rm", "rmdir", "unlink", "shred") and (
            "--no-preserve-root" in args or any(self._outside(target) for target in operands)
        ):
            return "it deletes outside the workspace, or the whole of it"
        recursive = "R" in flags or "--recursive" in args
        if name in ("chmod", "chown", "chgrp") and recursive and any(map(self._outside, operands[1:])):
            return "it changes permissions outside the workspace"
        if name == "find" and {"-delete", "-exec", "-execdir", "-ok"}.intersection(args):
            roots = args[: next((n for n, arg in enumerate(args) if arg.startswith(("-", "(", "!"))), len(args))]
            removes = "-delete" in args or {"rm", "shred", "chmod", "chown"}.intersection(args)
            if removes and any(self._outside(root) for root in roots):
                return "it deletes outside the workspace, or the whole of it"
        return None

    def _nested(self, path: str, name: str, args: list[str], command: Simple) -> str | None:
        """What a shell, ``eval``, ``source``, another interpreter or a script of the workspace would run."""
        operands = [arg for arg in args if not arg.startswith("-")]
        runs_text = name in _SHELLS or name in ("eval", "source", ".")
        if runs_text and _FETCHERS.intersection(_names(command.inner)):
            return "it runs what it fetches or decodes"
        if name == "eval":
            return self.text(" ".join(args))
        if name in _SHELLS:
            return self._shell(args, operands, command)
        if name in ("source", "."):
            return self.text(self._script(operands[0])) if operands else None
        if _INTERPRETERS.fullmatch(name):
            if command.piped and not [arg for arg in args if arg != "-"]:
                return _PIPED
            code = [*args, *command.fed, *map(self._script, operands[:1])]
            return next((why for text in code if (why := _in_code(text))), None)
        return self._executed(self._script(path)) if "/" in path and not path.startswith("/") else None

    def _shell(self, args: list[str], operands: list[str], command: Simple) -> str | None:
        if any(_COMMAND_FLAG.fullmatch(arg) for arg in args):
            return self.text(operands[0]) if operands else None
        if operands and "-s" not in args:
            return self.text(self._script(operands[0]))
        if command.piped:
            return _PIPED
        texts = [*command.fed, *map(self._script, command.reads)]
        return next((why for text in texts if (why := self.text(text))), None)

    def _executed(self, text: str) -> str | None:
        first = text.partition("\n")[0]
        if first.startswith("#!") and not _SHELLS.intersection(re.split(r"[/\s]+", first)):
            return _in_code(text)
        return self.text(text)

    def _script(self, path: str) -> str:
        if UNKNOWN in path or self.cwd is None:
            return ""
        return self.script(posixpath.normpath(posixpath.join(self.cwd, path))) or ""

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


def _unwrapped(words: list[str]) -> list[str]:
    """Without ``env X=1``, ``timeout 5``, ``xargs -n 1`` and their like before the real name."""
    while words and posixpath.basename(words[0]) in _WRAPPERS:
        words = words[1:]
        while words and _AMOUNT.fullmatch(words[0]):
            words = words[1:]
    return words


def _names(commands: list[Simple]) -> set[str]:
    return {posixpath.basename(words[0]) for command in commands if (words := _unwrapped(command.words))}


def _kills(name: str, args: list[str]) -> str | None:
    if name == "kill":
        targets = args[1:] if args[:1] and args[0].startswith("-") else args
        everything = any(target in ("-1", "0", "1") for target in targets)
    else:
        everything = any(arg.startswith(("-u", "-U")) for arg in args) or any(_OWN.search(arg) for arg in args)
    return "it ends processes that are not its own" if everything else None


def _in_code(text: str) -> str | None:
    text = text[:_SCRIPT_CHARS]
    if _OTHERS_MEMORY.search(text):
        return "it reads the memory or environment of a process"
    return "it deletes outside the workspace" if _CODE.search(text) else None
