from __future__ import annotations

import asyncio
import errno
import os
import time
from pathlib import Path

import pytest

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.contracts.tools import ToolOutput
from hermes_tasks.tools.confined import Outside, read_bytes, turn, write_bytes
from hermes_tasks.tools.files import MAX_BYTES, Patch, ReadFile, WriteFile
from hermes_tasks.tools.search import SearchFiles
from hermes_tasks.tools.terminal import Terminal
from hermes_tasks.tools.workspace import NOBODY, Workspaces
from tests.integration.tool_calls import call

# ruff: noqa: ASYNC240 - what a test looks at may block it
pytestmark = pytest.mark.anyio
AS_ROOT = os.geteuid() == 0
SECRET = "SECRET-OF-ANOTHER-USER"


@pytest.fixture
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("files")
    for folder in (base, *base.parents):  # as an operator does for a root worker: others may pass through
        if AS_ROOT and folder.owner() == "root" and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    workspaces = Workspaces(base / "ws")
    (workspaces.for_user("bob") / "vault").write_text(SECRET)
    return workspaces.for_user("ann")


async def read(workspace: Path, path: str, **more: int) -> ToolOutput:
    return await call(ReadFile(), workspace, {"path": path, **more})


async def write(workspace: Path, path: str, content: str) -> ToolOutput:
    return await call(WriteFile(), workspace, {"path": path, "content": content})


async def patch(workspace: Path, path: str, old: str, new: str) -> ToolOutput:
    return await call(Patch(), workspace, {"path": path, "old": old, "new": new})


async def search(workspace: Path, **args: str) -> ToolOutput:
    return await call(SearchFiles(), workspace, args)


# Workspaces


async def test_each_user_has_a_private_directory(workspace: Path) -> None:
    again = Workspaces(workspace.parent)
    assert workspace.stat().st_mode & 0o777 == 0o700
    assert again.for_user("ann") == workspace
    owners = {again.for_user(user).stat().st_uid for user in ("ann", "bob", "eve")}
    if AS_ROOT:
        assert len(owners) == 3
        assert 0 not in owners
        assert NOBODY not in owners
    else:
        assert owners == {os.getuid()}


@pytest.mark.skipif(not AS_ROOT, reason="only a root worker gives workspaces away")
async def test_two_names_never_share_a_number_and_one_name_keeps_it(workspace: Path) -> None:
    workspaces = Workspaces(workspace.parent)
    number = workspace.stat().st_uid
    mark = workspace.parent / ".uids" / str(number)
    workspace.rmdir()
    mark.write_text("somebody-else")  # as if another name had come to this number first
    assert workspaces.for_user("ann").stat().st_uid == number + 1
    workspace.rmdir()
    assert workspaces.for_user("ann").stat().st_uid == number + 1
    assert not [entry for entry in mark.parent.iterdir() if entry.name.startswith(".")]


@pytest.mark.skipif(not AS_ROOT, reason="only a root worker gives workspaces away")
async def test_where_numbers_are_few_all_share_nobody(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chown = os.chown

    def few(path: Path, uid: int, gid: int) -> None:
        if uid > NOBODY:
            raise OSError(errno.EINVAL, "Invalid argument")
        chown(path, uid, gid)

    monkeypatch.setattr(os, "chown", few)
    assert Workspaces(workspace.parent).for_user("eve").stat().st_uid == NOBODY


@pytest.mark.skipif(not AS_ROOT, reason="only a root worker gives workspaces away")
async def test_what_an_ordinary_worker_made_gets_a_user_of_its_own(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "others").write_text("x")
    ordinary, root = 54_999, workspace.parent
    (workspace / "d").mkdir()
    for path in (workspace / "d" / "f", workspace / "mine"):
        path.write_text("x")
    (workspace / "link").symlink_to(tmp_path / "others")
    for path in (root, workspace, *workspace.rglob("*")):
        os.chown(path, ordinary, ordinary, follow_symlinks=False)
    os.chown(workspace / "mine", 54_998, 54_998)
    again = Workspaces(root).for_user("ann")
    owners = {path.name: path.lstat().st_uid for path in (again, *again.rglob("*"))}
    own = owners.pop("ann")
    assert own not in (0, ordinary, NOBODY)
    assert owners == {"d": own, "f": own, "link": own, "mine": 54_998}
    assert (tmp_path / "others").stat().st_uid == os.getuid()


@pytest.mark.skipif(not AS_ROOT, reason="only a root worker could hand on its rights")
async def test_a_workspace_of_root_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="the workspace belongs to root"):
        await write(tmp_path, "f", "x")


async def test_a_missing_workspace_is_said(workspace: Path) -> None:
    gone = workspace / "gone"
    outputs = [await read(gone, "f"), await write(gone, "f", "x"), await search(gone, pattern="x")]
    assert not [output for output in outputs if not output.error and output.content != "nothing found"]
    assert not gone.exists()


@pytest.mark.parametrize("user", ["../bob", "", ".", "..", "a/b", "Ann", "a\n"])
async def test_a_user_id_is_no_path(workspace: Path, user: str) -> None:
    with pytest.raises(InvalidRequest, match="user id"):
        Workspaces(workspace.parent).for_user(user)


async def test_a_workspace_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequest, match=r"cannot use the workspace .*check tools\.workspaces"):
        Workspaces(tmp_path / "file").for_user("ann")


# Confinement


LEADING_OUT = [
    "../bob/vault",
    "sub/../../bob/vault",
    "/etc/passwd",
    "link",
    "folder/vault",
    "chain",
    "broken",
    "loop/x",
]


@pytest.fixture
def links(workspace: Path) -> Path:
    (workspace / "link").symlink_to("../bob/vault")
    (workspace / "folder").symlink_to(workspace.parent / "bob")
    (workspace / "chain").symlink_to("link")
    (workspace / "broken").symlink_to("/nonexistent/file")
    (workspace / "loop").symlink_to("loop")
    (workspace / "sub").mkdir()
    return workspace


@pytest.mark.parametrize("path", LEADING_OUT)
async def test_no_path_leads_out(links: Path, path: str) -> None:
    outputs = [
        await read(links, path),
        await write(links, path, "x"),
        await patch(links, path, "SECRET", "x"),
        await search(links, path=path),
    ]
    assert all(output.error or output.content == "nothing found" for output in outputs), outputs
    assert all(SECRET not in output.content for output in outputs)
    assert (links.parent / "bob" / "vault").read_text() == SECRET
    assert not Path("/nonexistent").exists()


async def test_what_leads_out_is_answered_alike_whether_it_exists_or_not(links: Path) -> None:
    (links / "other").symlink_to("../bob/nothing")
    answers = {
        (await read(links, path)).content.replace(path, "P") for path in ("link", "other", "../bob/vault", "../x")
    }
    assert len(answers) == 1


async def test_an_encoded_path_is_just_a_name(workspace: Path) -> None:
    assert (await read(workspace, "..%2fbob%2fvault")).content == "..%2fbob%2fvault does not exist in the workspace"


async def test_links_inside_and_absolute_paths_of_the_workspace_work(workspace: Path) -> None:
    await write(workspace, "release-3/note", "three")
    (workspace / "current").symlink_to("release-3")
    assert (await read(workspace, "current/note")).content == "1\tthree"
    assert (await read(workspace, f"{workspace}/release-3/note")).content == "1\tthree"
    await write(workspace, "current/note", "four")
    assert (workspace / "release-3" / "note").read_text() == "four"


@pytest.mark.parametrize("path", ["", " ", "a\0b", ".", "/"])
async def test_a_path_must_name_a_file(workspace: Path, path: str) -> None:
    assert (await read(workspace, path)).error
    assert (await write(workspace, path, "x")).error


async def test_devices_and_pipes_are_not_opened(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    began = time.monotonic()
    assert (await read(workspace, "pipe")).error
    assert (await write(workspace, "pipe", "x")).error
    assert not (await search(workspace, pattern="x")).error
    assert time.monotonic() - began < 10


@pytest.mark.skipif(not AS_ROOT, reason="only a root worker could be made to read for others")
async def test_somebody_elses_file_under_a_second_name_is_not_read(workspace: Path) -> None:
    outside = workspace.parent / "root-only"
    outside.write_text(SECRET)
    outside.chmod(0o600)
    os.link(outside, workspace / "mine")
    assert (await read(workspace, "mine")).content == "mine is no regular file of this workspace"
    assert SECRET not in (await search(workspace, pattern="SECRET")).content


@pytest.mark.parametrize("parts", [("link",), ("folder", "vault")])
async def test_what_became_a_link_after_it_was_checked_is_not_followed(links: Path, parts: tuple[str, ...]) -> None:
    with pytest.raises(Outside):
        read_bytes(links, parts, 100)
    with pytest.raises(Outside):
        write_bytes(links, parts, b"x")
    assert (links.parent / "bob" / "vault").read_text() == SECRET


async def test_a_link_put_in_at_the_last_moment_leads_nowhere(workspace: Path) -> None:
    """One thread swaps a directory for a link to another user's, as fast as it can; no read ever crosses it."""
    (workspace / "d").mkdir()
    (workspace / "d" / "vault").write_text("mine")
    (workspace / "l").symlink_to(workspace.parent / "bob")
    stop = asyncio.Event()

    def swap() -> None:
        while not stop.is_set():
            (workspace / "d").rename(workspace / "away")
            (workspace / "l").rename(workspace / "d")
            (workspace / "d").rename(workspace / "l")
            (workspace / "away").rename(workspace / "d")

    swapping = asyncio.create_task(asyncio.to_thread(swap))
    try:
        seen = {(await read(workspace, "d/vault")).content for _ in range(300)}
    finally:
        stop.set()
        await swapping
    assert "1\tmine" in seen
    assert not any(SECRET in content for content in seen)


# Reading


async def test_lines_are_numbered_and_paged(workspace: Path) -> None:
    (workspace / "f").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert (await read(workspace, "f", offset=9)).content == "9\tline 9\n10\tline 10\n[lines 9 to 10 of 10]"
    assert (await read(workspace, "f", limit=1)).content == "1\tline 1\n[lines 1 to 1 of 10; go on with offset 2]"
    behind = await read(workspace, "f", offset=11)
    assert behind.error
    assert behind.content == "f has 10 lines; offset 11 is behind its end"


async def test_a_long_file_is_read_in_pages_that_fit(workspace: Path) -> None:
    (workspace / "f").write_text("\n".join(f"{n} " + "x" * 500 for n in range(1, 101)))
    seen: list[str] = []
    offset = 1
    while True:
        page = (await read(workspace, "f", offset=offset)).content
        assert len(page) <= 16_000
        lines, _, note = page.rpartition("\n[lines ")
        seen += [line.split("\t")[1] for line in lines.split("\n")]
        if "go on with offset" not in note:
            break
        offset = int(note.rpartition(" ")[2].rstrip("]"))
    assert seen == (workspace / "f").read_text().split("\n")


async def test_a_very_long_line_is_shortened(workspace: Path) -> None:
    (workspace / "f").write_text("y" * 50_000)
    content = (await read(workspace, "f")).content
    assert content.endswith(" […48000 more]")
    assert len(content) < 3_000


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"", "(empty file)"),
        (b"\n", "1\t"),
        (b"a\x0cb\x85\n", "1\ta\x0cb\ufffd"),
        ("grün\u2028x\n".encode(), "1\tgrün\u2028x"),
        (b"a\x00b", "f is binary (3 bytes), so it cannot be used as text"),
    ],
)
async def test_odd_contents(workspace: Path, data: bytes, content: str) -> None:
    (workspace / "f").write_bytes(data)
    assert (await read(workspace, "f")).content == content


async def test_what_cannot_be_read_is_said(workspace: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / "big").write_bytes(b"x" * (MAX_BYTES + 1))
    assert (await read(workspace, "missing")).content == "missing does not exist in the workspace"
    assert (await read(workspace, "d")).content == "d is a directory"
    assert "use search_files or the terminal" in (await read(workspace, "big")).content
    assert (await read(workspace, "big/x")).error


# Writing


async def test_a_file_is_written_whole_with_its_directories(workspace: Path) -> None:
    output = await write(workspace, "a/b/c.txt", "grün\n")
    assert output == ToolOutput("wrote a/b/c.txt (6 bytes)")
    path = workspace / "a" / "b" / "c.txt"
    assert path.read_text() == "grün\n"
    for made in (path, path.parent, path.parent.parent):
        assert made.stat().st_uid == workspace.stat().st_uid
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


async def test_writing_again_replaces_and_keeps_the_mode_without_special_bits(workspace: Path) -> None:
    (workspace / "run.sh").write_text("old")
    (workspace / "run.sh").chmod(0o4755)
    await write(workspace, "run.sh", "new")
    await write(workspace, "run.sh", "new")
    assert (workspace / "run.sh").read_text() == "new"
    assert (workspace / "run.sh").stat().st_mode & 0o7777 == 0o755


async def test_what_cannot_be_written_leaves_nothing_behind(workspace: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / "f").write_text("keep")
    assert (await write(workspace, "d", "x")).error
    assert (await write(workspace, "f/x", "x")).error
    assert (await write(workspace, "big", "x" * (MAX_BYTES + 1))).error
    assert (await write(workspace, "n" * 300, "x")).error
    assert sorted(entry.name for entry in workspace.iterdir()) == ["d", "f"]
    assert (workspace / "f").read_text() == "keep"


async def test_a_long_name_of_many_bytes_can_be_written(workspace: Path) -> None:
    name = "\u732b" * 80
    assert not (await write(workspace, name, "x")).error
    assert (workspace / name).read_text() == "x"


async def test_a_masked_secret_is_not_written_over_the_real_one(workspace: Path) -> None:
    (workspace / "env").write_text("API_TOKEN=real-secret-1234\nDEBUG=0\n")
    output = await write(workspace, "env", "API_TOKEN=***\nDEBUG=1\n")
    assert output.error
    assert "change the other lines with patch" in output.content
    assert (workspace / "env").read_text() == "API_TOKEN=real-secret-1234\nDEBUG=0\n"
    assert not (await patch(workspace, "env", "DEBUG=0", "DEBUG=1")).error
    assert not (await write(workspace, "env", "API_TOKEN=other\n")).error
    assert not (await write(workspace, "notes", "API_TOKEN=***\n")).error


# Patching


async def test_one_passage_is_replaced(workspace: Path) -> None:
    (workspace / "f").write_text("a\nb\nc\n")
    assert await patch(workspace, "f", "b\n", "B\n") == ToolOutput("changed f at line 2: one passage replaced")
    assert (workspace / "f").read_text() == "a\nB\nc\n"


async def test_a_passage_that_is_missing_or_ambiguous_changes_nothing(workspace: Path) -> None:
    (workspace / "f").write_text("alpha\nbeta\nalpha\n")
    ambiguous = await patch(workspace, "f", "alpha", "x")
    assert ambiguous.error
    assert "2 times (lines 1, 3)" in ambiguous.content
    missing = await patch(workspace, "f", "betta", "x")
    assert missing.error
    assert "2: beta" in missing.content
    assert (workspace / "f").read_text() == "alpha\nbeta\nalpha\n"


async def test_a_file_that_is_not_utf8_is_not_damaged(workspace: Path) -> None:
    (workspace / "f").write_bytes(b"caf\xe9 x")
    output = await patch(workspace, "f", "x", "y")
    assert output.error
    assert "not UTF-8" in output.content
    assert (workspace / "f").read_bytes() == b"caf\xe9 x"


async def test_patches_side_by_side_lose_nothing(workspace: Path) -> None:
    (workspace / "f").write_text("".join(f"<{n}>\n" for n in range(20)))
    outputs = await asyncio.gather(*(patch(workspace, "f", f"<{n}>", f"[{n}]") for n in range(20)))
    assert not [output for output in outputs if output.error]
    assert (workspace / "f").read_text() == "".join(f"[{n}]\n" for n in range(20))


async def test_a_writer_waits_for_its_turn(workspace: Path) -> None:
    with turn(workspace):
        waiting = asyncio.create_task(write(workspace, "f", "x"))
        await asyncio.sleep(0)
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done
        assert not (workspace / "f").exists()
    assert not (await waiting).error


# Searching


async def test_lines_and_files_are_found(workspace: Path) -> None:
    await write(workspace, "src/one.py", "import os\nprint('Hello')\n")
    await write(workspace, "src/two.txt", "hello there\n")
    await write(workspace, ".git/config", "hello")
    assert (await search(workspace, pattern=r"(?i)hel+o")).content == (
        "src/one.py:2: print('Hello')\nsrc/two.txt:1: hello there"
    )
    assert (await search(workspace, pattern="hello", glob="*.py")).content == "nothing found"
    assert (await search(workspace, glob="**/*.py")).content == "src/one.py"
    assert (await search(workspace, path="src")).content == "src/one.py\nsrc/two.txt"


@pytest.mark.skipif(not AS_ROOT, reason="an ordinary worker is the user")
async def test_a_directory_above_that_nobody_may_pass_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    workspace = Workspaces(tmp_path / "closed" / "ws").for_user("ann")
    await write(workspace, "f", "here\n")
    assert (await search(workspace, pattern="here")).content == "f:1: here"
    assert (await call(Terminal(timeout_s=20, output_chars=100), workspace, {"command": "cat f"})).content == (
        "exit code 0\nhere"
    )


async def test_a_search_stays_inside_and_skips_what_is_no_text(links: Path) -> None:
    (links / "binary").write_bytes(b"SECRET\0")
    (links / "text").write_text("SECRET of mine\n")
    assert (await search(links, pattern="SECRET")).content == "text:1: SECRET of mine"


async def test_a_search_is_bounded(workspace: Path) -> None:
    (workspace / "f").write_text("hit\n" * 500)
    (workspace / "g").write_text("hit\n")
    lines = (await search(workspace, pattern="hit")).content.splitlines()
    assert len(lines) == 101
    assert lines[-1] == "[stopped after 1 files and 100 hits; narrow it by glob or path]"


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


async def test_a_broken_pattern_is_explained(workspace: Path) -> None:
    output = await search(workspace, pattern="(")
    assert output.error
    assert output.content.startswith("not a regular expression of Python: missing )")
