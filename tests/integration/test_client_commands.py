"""The commands that talk to a front, as real processes: in a pipe, in a terminal, and when things are wrong."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from hermes_tasks.contracts.events import EventType
from hermes_tasks.contracts.home import Home
from hermes_tasks.contracts.kinds import ExitReason, RunKind, RunState
from hermes_tasks.contracts.runs import NewRun, Outcome
from hermes_tasks.contracts.steps import ModelStep, ToolCall
from hermes_tasks.settings.sections import FrontSettings
from hermes_tasks.store.journal import StoreJournal
from hermes_tasks.testing.waiting import eventually
from tests.integration.front_stack import Stack, answer, echo, front, say

pytestmark = pytest.mark.anyio
_STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PROGRAM = (sys.executable, "-m", "hermes_tasks.cli.app")


class Shell:
    """Runs commands on one home, for the user ``me`` of one front."""

    def __init__(self, home: Path, url: str) -> None:
        self.home, self.url = home, url
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "OPENAI_"))}
        self.environment = kept | {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}

    async def run(self, *arguments: str, input: str | bytes = "", url: str | None = None) -> tuple[int, str, str]:
        """(exit code, stdout, stderr) of one command."""
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, *arguments, "--home", str(self.home), *(("--url", url or self.url) if url != "" else ()),
            stdin=PIPE, stdout=PIPE, stderr=PIPE, env=self.environment,
        )  # fmt: skip
        given = input.encode() if isinstance(input, str) else input
        async with asyncio.timeout(60):
            out, err = await process.communicate(given)
        return process.returncode or 0, out.decode(), err.decode()

    async def json(self, *arguments: str) -> Any:
        code, out, err = await self.run(*arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)


@asynccontextmanager
async def shell(stack: Stack, home: Path) -> AsyncIterator[Shell]:
    path = Home(home).user_key("me")
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text(await stack.key("me") + "\n", encoding="ascii")
    yield Shell(home, stack.url)


async def test_a_pipe_gets_one_answer_per_line(store_url: str, tmp_path: Path) -> None:
    async with front(store_url) as stack, shell(stack, tmp_path) as sh:
        code, out, err = await sh.run("chat", "--session", "s", input="add milk\n\n  \nund Öl\r\n/quit\nnever sent\n")
        assert (code, err) == (0, "")
        assert out == "You said: add milk\nYou said: und Öl\n"
        code, out, _ = await sh.run("chat", "--session", "s", input="/history\n/new\nhello\n/history")
        lines = out.splitlines()
        assert code == 0
        assert lines[0].endswith("you: add milk")
        assert lines[1:4:2] == ["You said: add milk", "You said: und Öl"]
        assert len([line for line in lines if line.endswith("you: hello")]) == 1
        assert [turn["user"] for turn in await stack.services.sessions.history("me", "s")] == ["add milk", "und Öl"]
        code, out, _ = await sh.run("chat", "--json", "--session", "s", input="as json")
        said = json.loads(out)
        assert (said["session"], said["turn"], said["state"], said["text"]) == (
            "s",
            3,
            "completed",
            "You said: as json",
        )


async def test_a_turn_without_an_answer_ends_the_pipe(store_url: str, tmp_path: Path) -> None:
    async def fail(journal: StoreJournal) -> None:
        outcome = Outcome(state=RunState.FAILED, exit_reason=ExitReason.MODEL_ERROR, error="the key was refused")
        await journal.finish(outcome)

    async with front(store_url, play=fail) as stack, shell(stack, tmp_path) as sh:
        code, _, err = await sh.run("chat", input="one\ntwo\n")
        assert (code, err) == (1, "hermes-tasks: the turn is failed: the key was refused\n")
        assert len(stack.begun) == 1


async def test_what_is_wrong_is_told_in_one_line(store_url: str, tmp_path: Path) -> None:
    settings = FrontSettings(max_message_chars=10)
    async with front(store_url, settings=settings) as stack, shell(stack, tmp_path / "home") as sh:
        wrong = tmp_path / "wrong"
        wrong.write_text("not-a-key")
        cases: list[tuple[tuple[str, ...], dict[str, Any], int, str]] = [
            (("chat",), {"input": "x" * 11}, 2, "11 characters and 10 are allowed"),
            (("chat",), {"input": b"\xff\xfe\n"}, 2, "line 1 of standard input is not UTF-8"),
            (("chat", "--key-file", str(wrong)), {}, 2, "unknown key"),
            (("inbox", "--key-file", str(tmp_path / "none")), {}, 2, "does not exist"),
            (("runs", "show", "no-such-run"), {}, 2, "there is no run no-such-run"),
            (("jobs", "add", "x", "--every", "10s"), {}, 2, "60"),
        ]
        for arguments, options, code, words in cases:
            found = await sh.run(*arguments, **options)
            assert found[0] == code, (arguments, found)
            assert found[1] == ""
            assert re.fullmatch(rf"hermes-tasks: [^\n]*{re.escape(words)}[^\n]*\n", found[2]), (arguments, found[2])
        await stack.stop()
        code, out, err = await sh.run("inbox")
        assert (code, out) == (1, "")
        assert re.fullmatch(r"hermes-tasks: no answer from \S+ .*is hermes-tasks up running there\?\n", err)


async def test_jobs_inbox_and_runs(store_url: str, tmp_path: Path) -> None:
    async with front(store_url) as stack, shell(stack, tmp_path) as sh:
        code, out, err = await sh.run("jobs", "add", "--every", "2m", "--name", "digest", "what is new?")
        assert code == 0
        assert "digest" in out
        assert "warning: no scheduler" in err
        [job] = await sh.json("jobs", "list")
        assert (job["name"], job["prompt"]) == ("digest", "what is new?")
        table = (await sh.run("jobs", "list"))[1].splitlines()
        assert table[0].split() == ["job", "name", "state", "next"]
        assert table[1].split()[:3] == [job["job"], "digest", "active"]

        text = "line one\nline \x1b[2Jtwo"
        mail = {"id": "m", "job": job["job"], "name": "digest", "slot": 1, "at": 1_900_000_000_000,
                "status": "completed", "reason": "completed", "text": text, "error": ""}  # fmt: skip
        await stack.services.store.read(("RPUSH", "ht:{u:me}:mail", json.dumps(mail)))
        head, *body = (await sh.run("inbox"))[1].splitlines()
        assert head.endswith("digest  completed")
        assert body == ["    line one", "    line �[2Jtwo"]

        stack.play = None
        await stack.services.sessions.open("me", "s")
        message = (await stack.services.sessions.post("me", "s", "hi")).message
        assert message in (await sh.run("runs", "list"))[1]
        shown = (await sh.run("runs", "show", message))[1]
        assert re.search(r"^state +queued$", shown, re.MULTILINE)
        assert (await sh.run("runs", "cancel", message))[1] == f"run {message} is cancelled\n"
        assert (await sh.json("runs", "show", message))["state"] == "cancelled"


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, shell: Shell) -> None:
        self._shell, self.seen = shell, ""

    async def __aenter__(self) -> Self:
        self._master, slave = pty.openpty()
        os.set_blocking(self._master, False)
        self._process = await asyncio.create_subprocess_exec(
            *PROGRAM, "chat", "--session", "s", "--home", str(self._shell.home), "--url", self._shell.url,
            stdin=slave, stdout=slave, stderr=slave, env=self._shell.environment, start_new_session=True,
            preexec_fn=lambda: _take_terminal(slave),
        )  # fmt: skip
        os.close(slave)
        asyncio.get_running_loop().add_reader(self._master, self._read)
        return self

    async def __aexit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._master)
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        os.close(self._master)

    def _read(self) -> None:
        try:
            self.seen += os.read(self._master, 65_536).decode(errors="replace")
        except OSError:  # the other end is closed
            asyncio.get_running_loop().remove_reader(self._master)

    def type(self, text: str) -> None:
        self.seen = ""
        os.write(self._master, text.encode())

    async def shows(self, text: str) -> None:
        await eventually(lambda: text in _STYLES.sub("", self.seen), 20, f"{text!r} on the screen")

    async def ended(self) -> int:
        async with asyncio.timeout(20):
            return await self._process.wait()


async def test_runs_are_explained_followed_and_stopped(store_url: str, tmp_path: Path) -> None:
    async def delegates(journal: StoreJournal) -> None:
        """A turn that waits for two children, of which nobody takes care."""
        runs = stack.services.runs
        batch = f"{journal.record.id}-b"
        children = [
            NewRun(
                id=f"{batch}.{n}", kind=RunKind.CHILD, user="me", session="s", parent=journal.record.id, batch=batch,
                index=n, depth=1, spec={"goal": f"goal {n}"}, policy=journal.record.policy,
            )
            for n in range(2)
        ]  # fmt: skip
        call = ToolCall(id="c", name="delegate_task", arguments='{"goal": "x"}')
        await journal.append(ModelStep(text="I hand it on", calls=(call,), finish="tool_calls"))
        async with journal.slot(0, "delegate_task") as slot:
            await runs.create_batch(slot.guard, slot.started(batch), batch, 0, children)
            slot.written()
        assert await journal.suspend()

    async with front(store_url, play=delegates) as stack, shell(stack, tmp_path) as sh:
        services = stack.services
        await services.sessions.open("me", "s")
        turn = (await services.sessions.post("me", "s", "go")).message
        stack.services.start_turn("me", turn)
        await eventually(lambda: _is(services, turn, RunState.WAITING))
        why = await sh.json("runs", "explain", turn)
        assert (why["state"], [reason["what"] for reason in why["reasons"]]) == ("waiting", ["children"] * 2)
        code, out, _ = await sh.run("runs", "explain", turn)
        assert code == 0
        assert f"child 1 of 2 ({turn}-b.1) is queued (since 20" in out
        assert (await sh.run("runs", "explain", "nothing-like-it"))[0] == 2
        following = asyncio.create_task(sh.run("runs", "tail", turn))
        assert await sh.json("runs", "cancel", f"{turn}-b.0") == {"run": f"{turn}-b.0", "state": "cancelled"}
        code, out, _ = await sh.run("runs", "cancel", "--batch", f"{turn}-b")
        assert (code, out) == (0, f"batch {turn}-b: 1 ended\n")
        assert (await sh.json("runs", "cancel", "--batch", f"{turn}-b"))["cancelled"] == 0
        assert (await sh.run("runs", "cancel", "--batch", "--session", "s"))[0] == 2
        waiting = (await services.sessions.post("me", "s", "later")).message
        assert (await sh.json("runs", "explain", waiting))["state"] == "inbox"
        assert (await sh.json("runs", "cancel", "--session", "s"))["cancelled"] == 2
        code, out, err = await following
        assert (code, err) == (0, "")
        assert f"{turn} | model: I hand it on" in out
        assert f"{turn} | call delegate_task:" in out
        assert f"child 0 {turn}-b.0 | state: cancelled" in out
        assert out.splitlines()[-1].endswith("| state: cancelled")
        history = await services.sessions.history("me", "s")
        assert [(entry["user"], entry["state"]) for entry in history] == [("go", "cancelled"), ("later", "cancelled")]
        assert (await sh.run("runs", "cancel", "--session", "no-such"))[0] == 2


async def _is(services: Any, run: str, state: RunState) -> bool:
    return bool((await services.runs.get("me", run)).state is state)


def _take_terminal(descriptor: int) -> None:
    """Make it the controlling terminal, so that Ctrl-C is a signal."""
    import fcntl  # noqa: PLC0415 - in the child only
    import termios  # noqa: PLC0415 - in the child only

    fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)


async def test_a_terminal_shows_the_turn_live_and_ctrl_c_leaves_it_running(store_url: str, tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def slow(journal: StoreJournal) -> None:
        await say(journal, "Let me look.")
        child = {"run": "kid", "index": 0, "goal": "tide tables"}
        batch = {"run": journal.record.id, "batch": "b", "children": [child]}
        await journal.emit([(EventType.BATCH_STARTED, batch), (EventType.CHILD_STARTED, {"run": "kid", "index": 0})])
        await go_on.wait()
        await journal.emit([(EventType.CHILD_ENDED, {"run": "kid", "index": 0, "status": "completed"})])
        await answer(journal, "High tide is at nine.")

    async with front(store_url, play=slow) as stack, shell(stack, tmp_path) as sh, Terminal(sh) as terminal:
        await terminal.shows("you> ")
        terminal.type("when is high tide?\n")
        await terminal.shows("Let me look.")
        await terminal.shows("tide tables  running")
        terminal.type("\x03")
        await terminal.shows("you> ")
        assert "Traceback" not in terminal.seen
        [(user, run)] = stack.begun
        assert (await stack.services.runs.get(user, run)).state == "running"
        go_on.set()
        await eventually(lambda: not stack.turns)
        terminal.type("/history\n")
        await terminal.shows("High tide is at nine.")
        stack.play = echo
        terminal.type("thanks\n")
        await terminal.shows("You said: thanks")
        await terminal.shows("you> ")
        terminal.type("\x03")  # at the prompt it only says how to leave
        await terminal.shows("/quit or Ctrl-D leaves")
        terminal.type("/quit\n")
        assert await terminal.ended() == 0


async def test_a_terminal_goes_on_after_an_error(store_url: str, tmp_path: Path) -> None:
    settings = FrontSettings(max_message_chars=10)
    async with front(store_url, settings=settings) as stack, shell(stack, tmp_path) as sh, Terminal(sh) as terminal:
        await terminal.shows("you> ")
        terminal.type("far too long a message\n")
        await terminal.shows("22 characters and 10 are allowed")
        terminal.type("short\n")
        await terminal.shows("You said: short")
        terminal.type("\x04")
        assert await terminal.ended() == 0
