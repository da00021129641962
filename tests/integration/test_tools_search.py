from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from hermes_tasks.contracts.tools import ToolOutput
from hermes_tasks.tools.files import WriteFile
from hermes_tasks.tools.search import SearchFiles
from hermes_tasks.tools.terminal import Terminal
from tests.integration.tool_calls import AS_ROOT, call, passable, workspace_of

# ruff: noqa: ASYNC240 - what a test looks at may block it
pytestmark = pytest.mark.anyio


@pytest.fixture
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workspace_of(passable(tmp_path_factory.mktemp("files")) / "ws", "ann")


async def write(workspace: Path, path: str, content: str) -> ToolOutput:
    return await call(WriteFile(), workspace, {"path": path, "content": content})


async def search(workspace: Path, **args: str) -> ToolOutput:
    return await call(SearchFiles(), workspace, args)


async def test_lines_and_files_are_found(workspace: Path) -> None:
    await write(workspace, "src/one.py", "import os\nprint('Hello')\n")
    await write(workspace, "src/two.txt", "hello there\n")
    await write(workspace, ".git/config", "hello")
    assert (await search(workspace, pattern=r"(?i)hel+o")).content == (
        "src/one.py:2: print('Hello')\nsrc/two.txt:1: hello there"
    )
    assert (await search(workspace, pattern="hello", glob="*.py")).content == "nothing found"
    assert (await search(workspace, glob="**/*.py")).content == "src/one.py"
    assert (await search(workspace, glob="src/**/*.py")).content == "src/one.py"
    assert (await search(workspace, path="src")).content == "src/one.py\nsrc/two.txt"
    assert (await search(workspace, path="src/two.txt", pattern="hel")).content == "src/two.txt:1: hello there"
    assert (await search(workspace, path="source")).content == "source does not exist in the workspace"


async def test_a_match_is_shown_wherever_it_stands(workspace: Path) -> None:
    (workspace / "min.js").write_bytes(b"a" * 5_000 + b"needle" + b"b" * 5_000 + b"\r\nend\r\n")
    (line,) = (await search(workspace, pattern="needle")).content.split("\n")
    assert line.startswith("min.js:1: …aaa")
    assert "needle" in line
    assert len(line) < 250
    assert (await search(workspace, pattern="^end$")).content == "min.js:2: end"


async def test_a_line_longer_than_any_memory_is_searched(workspace: Path) -> None:
    with (workspace / "one-line").open("wb") as file:
        file.write(b"x" * 5_000_000 + b"needle\nneedle\n")
    lines = (await search(workspace, pattern="needle")).content.split("\n")
    assert [line.partition(" ")[0] for line in lines] == ["one-line:1:", "one-line:2:"]


@pytest.mark.skipif(not AS_ROOT, reason="an ordinary worker is the user")
async def test_a_directory_above_that_nobody_may_pass_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    workspace = workspace_of(tmp_path / "closed" / "ws", "ann")
    await write(workspace, "f", "here\n")
    assert (await search(workspace, pattern="here")).content == "f:1: here"
    assert (await call(Terminal(timeout_s=20, output_chars=100), workspace, {"command": "cat f"})).content == (
        "exit code 0\nhere"
    )


async def test_a_search_stays_inside_and_skips_what_is_no_text(workspace: Path) -> None:
    (workspace_of(workspace.parents[2], "bob") / "vault").write_text("SECRET")
    (workspace / "link").symlink_to("../../../bob/sessions/s1/vault")
    (workspace / "folder").symlink_to("../../../bob")
    (workspace / "binary").write_bytes(b"SECRET\0")
    (workspace / "text").write_text("SECRET of mine\n")
    assert (await search(workspace, pattern="SECRET")).content == "text:1: SECRET of mine"


async def test_a_search_is_bounded(workspace: Path) -> None:
    (workspace / "f").write_text("hit\n" * 500)
    (workspace / "g").write_text("hit\n")
    lines = (await search(workspace, pattern="hit")).content.splitlines()
    assert len(lines) == 101
    assert lines[-1] == "[stopped after 1 files and 100 hits; narrow it by glob or path]"
    assert (await search(workspace, pattern="hit", path="f")).content.splitlines()[-1] == lines[-1]


async def test_a_pattern_that_takes_for_ever_is_ended_and_blocks_nobody(workspace: Path) -> None:
    (workspace / "f").write_text("a" * 60 + "b\n")
    slow = asyncio.create_task(call(SearchFiles(seconds=1), workspace, {"pattern": "(a+)+$"}))
    beats = 0
    while not slow.done():
        await asyncio.wait({slow}, timeout=0.05)
        beats += 1
    assert (await slow).error
    assert "use a simpler pattern" in (await slow).content
    assert beats > 10


async def test_a_name_that_is_no_text_is_shown_as_text(workspace: Path) -> None:
    Path(os.fsdecode(os.fsencode(workspace) + b"/caf\xe9")).write_text("hit")
    assert (await search(workspace)).content == "caf\ufffd"
    assert (await search(workspace, pattern="hit")).content == "caf\ufffd:1: hit"
    (workspace / "two\nlines").write_text("hit")
    assert (await search(workspace, glob="two*")).content == "two?lines"


async def test_a_broken_pattern_is_explained(workspace: Path) -> None:
    output = await search(workspace, pattern="(")
    assert output.error
    assert output.content.startswith("not a regular expression of Python: missing )")
