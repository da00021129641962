"""Starts ``commands_as`` in each of the ways in which a worker can run, for the tests of the sandbox."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from hermes_tasks.tools.sandbox.layers import sandbox

REPOSITORY = Path(__file__).parents[2]
AS_ROOT = os.geteuid() == 0
#: Nobody's; another for each process of the tests, so that they do not count each other's processes.
ORDINARY = 54_000 + os.getpid() % 1_000
SECRET = "worker-secret-2f6c"
HOWS = ("root", "root-container", "ordinary")
PATH = "/usr/local/bin:/usr/bin:/bin"
NEEDS = [
    pytest.mark.skipif(bool(sandbox().missing), reason="a layer is missing here; hermes-tasks health says which"),
    pytest.mark.skipif(shutil.which("python3", path=PATH) is None, reason="no system python3"),
]
TRYING = """
import ctypes, errno, json, os, socket
socket.setdefaulttimeout(3)
libc = ctypes.CDLL(None, use_errno=True)
arm = os.uname().machine == "aarch64"
runner = os.getppid()
def call(name, *args):
    done = getattr(libc, name)(*[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if done < 0:
        raise OSError(ctypes.get_errno(), name)
    return done
def syscall(x86, arm64, *args):
    return call("syscall", arm64 if arm else x86, *args)
def missing(attempt, *args):
    try:
        attempt(*args)
    except OSError as error:
        assert error.errno == errno.ENOSYS, error
        raise
def tried(code):
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        try:
            exec(code, globals())
            said = "REACHED"
        except BaseException as error:
            said = ("REFUSED " if isinstance(error, OSError) else "BROKEN ") + repr(error)
        os.write(theirs, said.encode())
        os._exit(0)
    os.close(theirs)
    said = open(ours).read()
    os.waitpid(child, 0)
    return said or "DIED"
"""


class Worker:
    """A worker process that runs commands and knows a secret.

    Attributes:
        outside: a directory that is the worker's own, beside the workspaces.
        user, other: users that no other worker has, since a name decides the user id.
    """

    def __init__(self, process: subprocess.Popen[str], base: Path, how: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.how = how
        self._process, self._in, self._out = process, process.stdin, process.stdout
        self.workspaces, self.outside = base / "ws", base / "outside"
        self.user, self.other = (f"{name}-{os.urandom(4).hex()}" for name in ("ann", "bob"))
        self.mine, self.theirs = (self.workspaces / name / "sessions" / "s1" for name in (self.user, self.other))
        begun = json.loads(self._out.readline() or "{}")
        self.pid, self.uid = begun["pid"], begun["uid"]

    def ask(self, **question: Any) -> dict[str, Any]:
        self._in.write(json.dumps(question) + "\n")
        self._in.flush()
        answer: dict[str, Any] = json.loads(self._out.readline())
        return answer

    def run(self, command: str, user: str = "", **more: Any) -> str:
        """What the command printed."""
        content: str = self.ask(user=user or self.user, command=command, **more)["content"]
        return content

    @property
    def alive(self) -> bool:
        return self._process.poll() is None


@contextmanager
def worker(how: str) -> Iterator[Worker]:
    """One that is gone afterwards, with its files."""
    if how.startswith("root") and not AS_ROOT:
        pytest.skip("only root can try what root does")
    uid = ORDINARY if AS_ROOT and how.startswith("ordinary") else None
    base = Path(mkdtemp(prefix="sandbox-", dir="/var/tmp"))  # not below /tmp: that is the command's own
    base.chmod(0o711)
    (base / "outside").mkdir(mode=0o755)
    (base / "outside" / "secret").write_text("SECRET-OUTSIDE\n")
    if uid is not None:
        for path in (base, base / "outside", base / "outside" / "secret"):
            os.chown(path, uid, uid)
    paths = os.pathsep.join([str(REPOSITORY), *(path for path in sys.path if path.endswith("-packages"))])
    process = subprocess.Popen(
        [
            _python(uid, paths),
            "-P",
            str(REPOSITORY / "tests" / "integration" / "commands_as.py"),
            how,
            str(base / "ws"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"PYTHONPATH": paths, "OPENAI_API_KEY": SECRET, "PYTHONDONTWRITEBYTECODE": "1"},
        user=uid,
        group=uid,
        extra_groups=None if uid is None else [],
        start_new_session=True,
    )
    try:
        yield Worker(process, base, how)
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(base, ignore_errors=True)


def _python(uid: int | None, paths: str) -> str:
    """An interpreter that the user can run, with our packages."""
    if uid is None:
        return sys.executable
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        try:
            done = subprocess.run(
                [candidate, "-c", "import hermes_tasks.tools.terminal"],
                user=uid,
                group=uid,
                extra_groups=[],
                env={"PYTHONPATH": paths},
                cwd="/",
                capture_output=True,
                check=False,
            )
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    pytest.skip("no interpreter with our packages that an ordinary user may run")


def tried(
    held: Worker, attempts: dict[str, str], *, places: dict[str, Any] | None = None, **more: bool
) -> dict[str, str]:
    """What became of each attempt: REACHED, REFUSED and the error, or what a mistake in it makes of it."""
    known = {"ws": held.workspaces, "mine": held.mine, "theirs": held.theirs, "outside": held.outside, "pid": held.pid}
    filled = {name: code.format(n=time.monotonic_ns(), **known, **(places or {})) for name, code in attempts.items()}
    text = f"{TRYING}\nprint(json.dumps({{name: tried(code) for name, code in {filled!r}.items()}}))"
    answer = held.run(f"exec python3 -c {shlex.quote(text)}", **more)
    found: dict[str, str] = json.loads(answer)
    assert "SECRET" not in answer or more.get("bare")
    return found


def without(held: Worker, attempts: dict[str, str], names: tuple[str, ...], **more: Any) -> dict[str, str]:
    """What becomes of those attempts when there is no sandbox: a test of the tests."""
    return tried(held, {name: attempts[name] for name in names}, bare=True, **more)


def not_refused(found: dict[str, str]) -> dict[str, str]:
    return {name: said for name, said in found.items() if not said.startswith("REFUSED")}
