from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from hermes_tasks.tools.terminal import Terminal
from tests.integration.tool_calls import call, eventually, workspace_of

# ruff: noqa: ASYNC220, ASYNC240 - what a test looks at may block it
pytestmark = pytest.mark.anyio
AS_ROOT = os.geteuid() == 0


@pytest.fixture
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("terminal")
    for folder in (base, *base.parents):  # as an operator does for a root worker: others may pass through
        if AS_ROOT and folder.owner() == "root" and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    return workspace_of(base / "ws", "ann")


@pytest.fixture
def terminal() -> Terminal:
    return Terminal(timeout_s=20, output_chars=4_000)


def alive(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if mark in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def sleeper(mark: str) -> str:
    """A command that shows ``mark`` as an argument of its own while it lives."""
    return f"sh -c 'sleep 300; :' {mark}"


async def started(mark: str) -> None:
    assert await asyncio.to_thread(eventually, lambda: bool(alive(mark)))


async def gone(mark: str) -> None:
    assert await asyncio.to_thread(eventually, lambda: not alive(mark))


async def test_exit_code_and_output_come_back(terminal: Terminal, workspace: Path) -> None:
    output = await call(terminal, workspace, {"command": "echo out; echo err >&2; pwd; exit 3"})
    assert output.content == f"exit code 3\nout\nerr\n{workspace}"
    assert output.error
    assert not (await call(terminal, workspace, {"command": "true"})).error


async def test_the_environment_is_clean_and_nothing_is_inherited(
    terminal: Terminal, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "worker-secret")
    secret = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        shown = await call(terminal, workspace, {"command": "env | sort; ls /proc/self/fd; cat; id -u"})
    finally:
        os.close(secret)
    lines = shown.content.splitlines()
    names = {line.partition("=")[0] for line in lines if "=" in line}
    ours = {"HOME", "LANG", "PATH", "TERM", "TMPDIR", "GIT_CONFIG_NOSYSTEM", "PIP_CONFIG_FILE", "SYSTEM_WGETRC"}
    assert names <= {*ours, "PWD", "OLDPWD", "SHLVL", "_"}
    assert f"HOME={workspace}" in lines
    assert [line for line in lines if line.isdigit() and len(line) == 1] == ["0", "1", "2", "3"]  # 3 is of ls itself
    assert lines[-1] == str(workspace.stat().st_uid)


async def test_files_belong_to_the_user_and_privileges_cannot_come_back(terminal: Terminal, workspace: Path) -> None:
    await call(terminal, workspace, {"command": "echo x > made; mkdir d"})
    assert (workspace / "made").stat().st_uid == workspace.stat().st_uid
    assert (workspace / "made").stat().st_mode & 0o777 == 0o600
    shown = await call(terminal, workspace, {"command": "grep NoNewPrivs /proc/self/status; cat /etc/shadow"})
    assert "NoNewPrivs:\t1" in shown.content
    assert "root:" not in shown.content


async def test_a_time_limit_kills_and_keeps_what_was_printed(terminal: Terminal, workspace: Path) -> None:
    mark = f"mark-{os.urandom(6).hex()}"
    began = time.monotonic()
    output = await call(terminal, workspace, {"command": f"echo begun; {sleeper(mark)}", "timeout_s": 1})
    assert time.monotonic() - began < 10
    assert output.error
    assert output.content == "killed: its 1 s were over\nbegun"
    await gone(mark)


async def test_the_deadline_of_the_run_caps_the_limit(terminal: Terminal, workspace: Path) -> None:
    output = await call(terminal, workspace, {"command": "sleep 300"}, seconds_left=2)
    assert output.content.startswith("killed: its 1 s were over")


async def test_cancelling_kills_the_whole_tree(terminal: Terminal, workspace: Path) -> None:
    mark = f"mark-{os.urandom(6).hex()}"
    command = f"{sleeper(mark)} & setsid {sleeper(mark)} & (setsid {sleeper(mark)} &) ; wait; sleep 300"
    task = asyncio.create_task(call(terminal, workspace, {"command": command}))
    await asyncio.to_thread(eventually, lambda: len(alive(mark)) >= 3)
    assert len(alive(mark)) >= 3
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(mark) == []  # the call returns only when they are gone


async def test_nothing_goes_on_in_the_background(terminal: Terminal, workspace: Path) -> None:
    mark = f"mark-{os.urandom(6).hex()}"
    output = await call(terminal, workspace, {"command": f"setsid {sleeper(mark)} & nohup {sleeper(mark)} & echo ok"})
    assert output.content.startswith("exit code 0\nok")
    assert alive(mark) == []


WORKER = """
import asyncio, sys
from pathlib import Path
from hermes_tasks.tools.terminal import Terminal
from tests.integration.tool_calls import call
asyncio.run(call(Terminal(timeout_s=60, output_chars=1000), Path(sys.argv[1]), {"command": sys.argv[2]}))
"""


async def test_a_killed_worker_takes_its_commands_along(workspace: Path) -> None:
    mark = f"mark-{os.urandom(6).hex()}"
    command = f"{sleeper(mark)} & setsid {sleeper(mark)} & wait"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(workspace), command])
    try:
        await started(mark)
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    await gone(mark)


@pytest.mark.skipif(not AS_ROOT, reason="an ordinary worker and its commands are one user")
async def test_a_killed_runner_takes_its_command_along(terminal: Terminal, workspace: Path) -> None:
    mark = f"mark-{os.urandom(6).hex()}"
    task = asyncio.create_task(call(terminal, workspace, {"command": f"{sleeper(mark)} & wait"}))
    await started(mark)
    runner = next(p for p in psutil.Process().children() if "hermes_tasks.tools.runner" in " ".join(p.cmdline()))
    runner.kill()
    began = time.monotonic()
    assert (await task).error
    assert time.monotonic() - began < 5
    await gone(mark)


@pytest.mark.skipif(not AS_ROOT, reason="an ordinary worker and its commands are one user")
async def test_a_command_cannot_reach_the_worker(terminal: Terminal, workspace: Path) -> None:
    pid = os.getpid()
    output = await call(
        terminal, workspace, {"command": f"kill -9 {pid}; kill -9 $PPID; cat /proc/$PPID/maps; echo on"}
    )
    assert output.content.endswith("on")
    assert "not permitted" in output.content


@pytest.mark.skipif(not AS_ROOT, reason="the commands of an ordinary worker are all one user")
async def test_one_users_command_cannot_reach_another_user(terminal: Terminal, workspace: Path) -> None:
    mark = f"mark-{os.urandom(6).hex()}"
    other = workspace_of(workspace.parents[2], "bob")
    (other / "vault").write_text("SECRET-OF-BOB")
    task = asyncio.create_task(call(terminal, other, {"command": f"{sleeper(mark)} & wait"}))
    await started(mark)
    (victim, *_) = alive(mark)
    reads = f"cat ../../../bob/sessions/s1/vault {other}/vault; ls .."
    command = f"{reads}; kill -9 {victim.pid}; cat /proc/{victim.pid}/maps; echo on"
    output = await call(terminal, workspace, {"command": command})
    assert output.content.endswith("on")
    assert "SECRET" not in output.content
    assert "vault" not in output.content.replace("s1/vault: No such file or directory", "")
    assert victim.is_running()
    task.cancel()
    await asyncio.wait({task})


async def test_long_output_keeps_both_ends(terminal: Terminal, workspace: Path) -> None:
    output = await call(terminal, workspace, {"command": "seq 1 100000"})
    lines = output.content.splitlines()
    assert lines[:3] == ["exit code 0", "1", "2"]
    assert lines[-1] == "100000"
    assert len(output.content) < 5_000
    cut = next(line for line in lines if "left out" in line)
    assert int(cut.split()[1]) > 500_000


async def test_endless_output_ends_the_command(workspace: Path) -> None:
    mark = f"mark-{os.urandom(6).hex()}"
    output = await call(Terminal(timeout_s=60, output_chars=1_000), workspace, {"command": f"yes {mark}"})
    assert output.error
    assert output.content.startswith("killed: it printed more than")
    assert alive(mark) == []


async def test_limits_of_file_size_and_memory_hold(terminal: Terminal, workspace: Path) -> None:
    big = await call(terminal, workspace, {"command": "head -c 300000000 /dev/zero > big; ls -l big; ulimit -v"})
    assert (workspace / "big").stat().st_size == 256 * 1024 * 1024
    assert str(2 * 1024 * 1024) in big.content


async def test_dangerous_commands_are_denied_at_once(terminal: Terminal, workspace: Path) -> None:
    (workspace / "x.sh").write_text("sudo reboot\n")
    for command in ("rm -rf /", "sh x.sh", f"rm -rf {workspace}"):
        output = await call(terminal, workspace, {"command": command})
        assert output.error
        assert output.content.startswith("denied, and not run: it ")
    assert workspace.is_dir()
    assert not (await call(terminal, workspace, {"command": f"mkdir d; rm -rf {workspace}/d"})).error


async def test_a_missing_workspace_is_said(terminal: Terminal, tmp_path: Path) -> None:
    output = await call(terminal, tmp_path / "missing", {"command": "true"})
    assert output.error
    assert output.content.startswith(
        "not run: the workspace cannot be used" if AS_ROOT else "exit code 125\nthe command could not be started"
    )


async def test_colours_and_broken_text_come_out_plain(terminal: Terminal, workspace: Path) -> None:
    output = await call(terminal, workspace, {"command": r"printf '\033[31mred\033[0m \377 \0end\033]0;title\007'"})
    assert output.content == "exit code 0\nred \ufffd end"


async def test_wrong_arguments_run_nothing(terminal: Terminal, workspace: Path) -> None:
    for args in ({}, {"command": ""}, {"command": ["ls"]}, {"command": "touch x", "cwd": "/"}, {"command": "a\0b"}):
        assert (await call(terminal, workspace, args)).error
    assert list(workspace.iterdir()) == []
