"""What becomes of the processes of a command, whoever its worker is."""

from __future__ import annotations

import os
import shlex
import textwrap
from contextlib import suppress

import psutil
import pytest

from tests.integration.sandbox_worker import NEEDS, SECRET, Worker
from tests.integration.tool_calls import eventually

pytestmark = NEEDS


def processes(mark: str) -> list[psutil.Process]:
    """Those that have ``mark`` in their arguments."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(mark in part for part in process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def new_mark() -> str:
    return f"mark-{os.urandom(6).hex()}"


def test_killing_everything_ends_only_the_command(held: Worker) -> None:
    mark = new_mark()
    said = held.run(
        f"sh -c 'sleep 300; :' {mark} & kill -9 {held.pid}; kill -STOP $PPID; python3 -c 'import os; os.kill(-1, 9)'"
    )
    assert "SECRET" not in said
    assert eventually(lambda: not processes(mark))
    assert held.run("echo on") == "on"


STAYING = {
    "in the background": "{sleeper} &",
    "without a terminal": "nohup {sleeper} &",
    "in a session of its own": "setsid {sleeper} &",
    "deaf": "trap '' TERM HUP INT; {sleeper} &",
    "as a daemon": """python3 -c '
import os
os.fork() and os._exit(0)
os.setsid()
os.fork() and os._exit(0)
os.execvp("sh", ["sh", "-c", "sleep 300; :", "{mark}"])' &""",
}


@pytest.mark.parametrize("how", STAYING)
def test_nothing_stays(held: Worker, how: str) -> None:
    mark = new_mark()
    command = STAYING[how].format(sleeper=f"sh -c 'sleep 300; :' {mark}", mark=mark)
    assert held.run(f"{command}\nsleep 0.2; echo ok").splitlines()[-1] == "ok"
    assert processes(mark) == []  # the call returns only when they are gone


def test_the_environment_holds_no_secret(held: Worker) -> None:
    said = held.run("env; set; cat /proc/self/environ /proc/1/environ /proc/*/environ 2>&1; ps axe 2>&1")
    assert "HOME=" in said
    assert SECRET not in said


BOMBS = {
    "a shell's": "b() { b | b & }; b; sleep 60  # MARK",
    "leaving its group": """python3 -c '
import os  # MARK
while True:
    try:
        os.fork() or os.setsid()
    except OSError:
        pass
'""",
    "leaving its parents": """python3 -c '
import os  # MARK
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            os.fork() and os._exit(0)
    except OSError:
        pass
'""",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_fork_bomb_ends_with_its_command(held: Worker, bomb: str) -> None:
    mark = new_mark()
    assert held.ask(user=held.user, command=BOMBS[bomb].replace("MARK", mark), timeout_s=2)["error"]
    assert eventually(lambda: not processes(mark), 5), processes(mark)
    assert held.run("echo on") == "on"


def test_processes_are_counted(held: Worker) -> None:
    mark = new_mark()
    code = f"""
        import os, signal  # {mark}
        made = 0
        try:
            while made < 5000:
                os.fork() or signal.pause()
                made += 1
        except OSError:
            print(made)
    """
    said = held.run(f"python3 -c {shlex.quote(textwrap.dedent(code))}", timeout_s=20)
    assert 200 < int(said.splitlines()[0]) < 256
    assert processes(mark) == []
