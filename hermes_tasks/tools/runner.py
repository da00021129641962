"""Runs one command and ends with its worker. Starts anew for every command, so it imports next to nothing.

Standard input carries the question (``command.Question``) and then stays open as a life line: when it ends, because
the worker closed it or died, everything the command started is killed. Standard output is the command's; standard error
gets its process group, for the case that the runner is killed. Exit code: the command's own, or 128 + the signal that
ended it; 125 = the command could not be started, and standard output says why.

With namespaces the command's processes have a first one, a copy of this process, with which the kernel ends them all.
Without, the runner is the sub-reaper of its descendants: one that leaves group and session is still found below it.
"""

from __future__ import annotations

import marshal
import os
import resource
import select
import stat
import sys
import time

from hermes_tasks.tools.sandbox import kernel, namespaces
from hermes_tasks.tools.sandbox.confine import confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from hermes_tasks.tools.command import Question

#: The module ``signal`` would cost more time than all the rest of this file.
_SIGKILL, _SIGPIPE, _SIGCONT, _SIGSTOP, _SIGXFSZ = 9, 13, 18, 19, 25
_NOT_STARTED = 125
_KILL_S = 2.0
_LOOK_AGAIN_S = 0.02
#: The command yields to the worker, and with it to the thread that renews leases.
_NICENESS = 10
_LINUX = sys.platform == "linux"


def main() -> None:
    """Start the command, wait for its end or the end of the life line, and leave nothing behind."""
    asked: Question = marshal.loads(_question())  # noqa: S302 - our worker wrote it, and json doubles the start-up
    if _LINUX:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    try:
        first = _first(asked)
    except OSError as error:
        _not_started(error)
    os.write(2, b"%d\n" % first)
    code = _outcome(first)
    _end_all(first, asked["uid"] if asked["sandbox"] and not asked["namespaces"] else None)
    os._exit(code)


def _first(asked: Question) -> int:
    """Start the process that stands for the command: its shell, or the first process of its namespace."""
    if asked["sandbox"]:
        _make_temporary(asked)
    if not asked["namespaces"]:
        return _start(asked)
    namespaces.enter()
    if (first := os.fork()) == 0:
        _be_first(asked)
    return first


def _be_first(asked: Question) -> NoReturn:
    """Process 1 of the namespace: it outlives the command by nothing, and everything else in there not at all."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(1, 2)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, _SIGKILL)
    try:
        namespaces.build(asked["cwd"], asked["temporary"], network=asked["network"])
        shell = _start(asked)
    except OSError as error:
        _not_started(error)
    while True:
        ended, status = os.wait()
        if ended == shell:
            os._exit(_code(status))


def _start(asked: Question) -> int:
    if (pid := os.fork()) != 0:
        return pid
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)
        _give_up(asked)
        os.execve("/bin/sh", ["/bin/sh", "-c", asked["command"]], asked["env"])  # noqa: S606 - it is one
    except OSError as error:
        _not_started(error)


def _give_up(asked: Question) -> None:
    """Between fork and exec: limits, then the user, then what a change of user would take back, then the sandbox."""
    if _LINUX:
        _write("/proc/self/oom_score_adj", b"1000")  # short of memory, the kernel ends the command before the worker
    for number in (_SIGPIPE, _SIGXFSZ):
        kernel.call("signal", number, 0)  # Python ignores them, a command must not
    os.nice(_NICENESS)
    for name, wanted in asked["limits"].items():
        limit = getattr(resource, name)
        hard = resource.getrlimit(limit)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(limit, (value, value))
    if (uid := asked["uid"]) is not None:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    os.umask(0o077)
    try:
        os.chdir(asked["cwd"])
    except PermissionError:
        raise OSError(f"user {uid} cannot pass through the directories above {asked['cwd']}; chmod o+x them") from None
    if _LINUX:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, _SIGKILL)
    if asked["sandbox"]:
        confine(asked["cwd"], namespaces=asked["namespaces"], network=asked["network"])


def _make_temporary(asked: Question) -> None:
    """The directory for temporary files in the workspace; whatever else has its name goes."""
    name, uid = asked["temporary"], asked["uid"]
    workspace = os.open(asked["cwd"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=workspace, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=workspace)
    except FileNotFoundError:
        pass
    try:
        os.mkdir(name, 0o700, dir_fd=workspace)
    except FileExistsError:
        return
    if uid is not None:
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=workspace)
        os.fchown(made, uid, uid)


def _outcome(first: int) -> int:
    """The exit code of the command, or of a killed one if the life line ends first."""
    lines = [0]
    if _LINUX:  # no thread that waits: none can be started once the namespaces are chosen
        lines.append(os.pidfd_open(first))
    while True:
        ready, _, _ = select.select(lines, [], [], None if _LINUX else _LOOK_AGAIN_S)
        if 0 in ready and not os.read(0, 64):
            return 128 + _SIGKILL
        ended, status = os.waitpid(first, os.WNOHANG)
        if ended:
            return _code(status)


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _end_all(group: int, uid: int | None) -> None:
    """Kill the command's group, then whatever is left below us, until nothing is.

    What is left of a user of its own is stopped first, in one call: else the dead make room for what others of them
    start meanwhile. Other commands of that user stand still for this moment and go on.
    """
    deadline = time.monotonic() + _KILL_S
    _send(-group, _SIGKILL)
    while _reap() and time.monotonic() < deadline:
        _send_all_of(uid, _SIGSTOP)
        for pid in _descendants():
            _send(pid, _SIGKILL)
        _send_all_of(uid, _SIGCONT)
        time.sleep(0.005)


def _send_all_of(uid: int | None, number: int) -> None:
    if uid is None:
        return
    if (helper := os.fork()) == 0:
        os.setgid(uid)
        os.setuid(uid)
        _send(-1, number)  # everything it may send to, but itself
        os._exit(0)
    os.waitpid(helper, 0)


def _reap() -> bool:
    """Take notice of the dead; true while children are left. Who has no children has no descendants."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _descendants() -> list[int]:
    """Our children and theirs, and so on."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if _LINUX else ():
        if name.isdigit() and (parent := _parent(name)) is not None:
            below.setdefault(parent, []).append(int(name))
    found = below.get(os.getpid(), [])
    for pid in found:  # grows while it is walked through
        found += below.get(pid, [])
    return found


def _parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):  # gone meanwhile
        return None


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _question() -> bytes:
    return _read(int.from_bytes(_read(4), "big"))


def _read(size: int) -> bytes:
    """Exactly so many bytes: the rest belongs to the life line."""
    data = b""
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            raise SystemExit(_NOT_STARTED)
        data += piece
    return data


def _write(path: str, data: bytes) -> None:
    try:
        with open(path, "wb", buffering=0) as file:
            file.write(data)
    except OSError:
        pass


def _not_started(error: OSError) -> NoReturn:
    os.write(1, f"the command could not be started: {error}\n".encode())
    os._exit(_NOT_STARTED)
