"""What one simple command does by itself, if that is dangerous: known by its name and its arguments. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final


def words(text: str) -> frozenset[str]:
    """A set, written as one text."""
    return frozenset(text.split())


SHELLS: Final = words("sh bash dash ash zsh ksh fish")
_REASONS: Final = {
    "it asks for another user's rights": words("sudo su doas pkexec runuser nsenter unshare chroot newgrp setpriv"),
    "it stops the machine": words("shutdown reboot halt poweroff telinit kexec"),
    "it writes to a disk below its files": words("wipefs fdisk sfdisk parted blkdiscard mkswap mke2fs"),
    "it changes the running system": words(
        "mount umount swapon swapoff insmod modprobe rmmod iptables ip6tables nft useradd usermod userdel groupadd "
        "passwd chpasswd visudo setcap crontab at"
    ),
    "it controls the service that runs it": words("hermes-tasks celery supervisorctl valkey-cli redis-cli"),
}
_BY_NAME: Final = {name: reason for reason, names in _REASONS.items() for name in names}
_ON_FILES: Final = words("rm rmdir unlink shred dd tee cp mv truncate chmod chown chgrp chattr find")
_SYSTEMCTL: Final = words("poweroff reboot halt kexec suspend hibernate stop restart disable mask isolate kill")
_OWN: Final = re.compile(r"hermes|celery|valkey|redis|supervisor|^python[\d.]*$", re.IGNORECASE)
_DEVICES: Final = re.compile(r"/dev/(?:null|zero|full|stdin|stdout|stderr|tty|fd/\d+)")
_OUTSIDE: Final = "it deletes outside the workspace, or the whole of it"


def is_known(name: str) -> bool:
    """A command of that name may be dangerous, or start others."""
    return name in _BY_NAME or name in _ON_FILES or name in SHELLS or name.startswith("mkfs") or name == "systemctl"


def deed(name: str, args: Sequence[str], outside: Callable[[str], bool]) -> str | None:
    """Why it may not run, or None.

    Args:
        name: without its directory.
        outside: true for a path that is not the command's own.
    """
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
    if name in ("gdb", "strace", "ltrace") and any(arg.startswith(("-p", "--pid")) for arg in args):
        return "it reads the memory or environment of a process"
    return _on_files(name, args, outside) if name in _ON_FILES else None


def overwrites_device(target: str) -> bool:
    """A path of a device that is more than a sink or a source."""
    return target.startswith("/dev/") and not _DEVICES.fullmatch(target)


def _on_files(name: str, args: Sequence[str], outside: Callable[[str], bool]) -> str | None:
    operands = [arg for arg in args if not arg.startswith("-")]
    flags = "".join(arg for arg in args if arg.startswith("-"))
    if name in ("dd", "tee", "cp", "mv", "shred", "truncate"):
        targets = [arg.removeprefix("of=") for arg in operands if not arg.startswith("if=")]
        if any(overwrites_device(target) for target in targets):
            return "it overwrites a device"
    if name in ("rm", "rmdir", "unlink", "shred") and ("--no-preserve-root" in args or any(map(outside, operands))):
        return _OUTSIDE
    recursive = "R" in flags or "--recursive" in args
    if name == "chattr" or (name in ("chmod", "chown", "chgrp") and recursive):
        changed = operands if name == "chattr" else operands[1:]
        return "it changes permissions outside the workspace" if any(map(outside, changed)) else None
    if name == "find" and {"-delete", "-exec", "-execdir", "-ok"}.intersection(args):
        roots = args[: next((n for n, arg in enumerate(args) if arg.startswith(("-", "(", "!"))), len(args))]
        removes = "-delete" in args or {"rm", "shred", "chmod", "chown"}.intersection(args)
        if removes and any(map(outside, roots)):
            return _OUTSIDE
    return None


def _kills(name: str, args: Sequence[str]) -> str | None:
    if name == "kill":
        targets = args[1:] if args[:1] and args[0].startswith("-") else args
        everything = any(target in ("-1", "0", "1") for target in targets)
    else:
        everything = any(arg.startswith(("-u", "-U")) for arg in args) or any(_OWN.search(arg) for arg in args)
    return "it ends processes that are not its own" if everything else None
