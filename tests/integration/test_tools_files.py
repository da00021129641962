from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from hermes_tasks.contracts.tools import ToolOutput
from hermes_tasks.tools.confined import Outside, read_bytes, turn, write_bytes
from hermes_tasks.tools.files import MAX_BYTES, Patch, ReadFile, WriteFile
from hermes_tasks.tools.paging import SCANNED_BYTES
from hermes_tasks.tools.search import SearchFiles
from tests.integration.tool_calls import AS_ROOT, call, passable, workspace_of

# ruff: noqa: ASYNC240 - what a test looks at may block it
pytestmark = pytest.mark.anyio
SECRET = "SECRET-OF-ANOTHER-USER"
#: From a workspace to those of another user and of another session.
BOB, OTHER = "../../../bob/sessions/s1", "../s2"


@pytest.fixture
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = passable(tmp_path_factory.mktemp("files")) / "ws"
    for user, session in (("bob", "s1"), ("ann", "s2")):
        (workspace_of(root, user, session) / "vault").write_text(SECRET)
    return workspace_of(root, "ann")


async def read(workspace: Path, path: str, **more: int) -> ToolOutput:
    return await call(ReadFile(), workspace, {"path": path, **more})


async def write(workspace: Path, path: str, content: str) -> ToolOutput:
    return await call(WriteFile(), workspace, {"path": path, "content": content})


async def patch(workspace: Path, path: str, old: str, new: str) -> ToolOutput:
    return await call(Patch(), workspace, {"path": path, "old": old, "new": new})


async def search(workspace: Path, **args: str) -> ToolOutput:
    return await call(SearchFiles(), workspace, args)


# Confinement


LEADING_OUT = [
    f"{BOB}/vault",
    f"{OTHER}/vault",
    f"sub/../{BOB}/vault",
    "/etc/passwd",
    "link",
    "folder/vault",
    "chain",
    "broken",
    "loop/x",
]


@pytest.fixture
def links(workspace: Path) -> Path:
    (workspace / "link").symlink_to(f"{BOB}/vault")
    (workspace / "folder").symlink_to(workspace.parent / "s2")
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
    assert all((links / place / "vault").read_text() == SECRET for place in (BOB, OTHER))
    assert not Path("/nonexistent").exists()


async def test_what_leads_out_is_answered_alike_whether_it_exists_or_not(links: Path) -> None:
    (links / "other").symlink_to(f"{BOB}/nothing")
    answers = {
        (await read(links, path)).content.replace(path, "P") for path in ("link", "other", f"{BOB}/vault", "../x")
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
    assert all((links / place / "vault").read_text() == SECRET for place in (BOB, OTHER))


async def test_a_link_put_in_at_the_last_moment_leads_nowhere(workspace: Path) -> None:
    """One thread swaps a directory for a link to another user's, as fast as it can; no read ever crosses it."""
    (workspace / "d").mkdir()
    (workspace / "d" / "vault").write_text("mine")
    (workspace / "l").symlink_to(workspace.parent / "s2")
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
    assert content.endswith(" […48000 bytes more]")
    assert len(content) < 3_000


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"", "(empty file)"),
        (b"\n", "1\t"),
        (b"a\x0cb\x85\n", "1\ta\x0cb\ufffd"),
        ("grün\u2028x\n".encode(), "1\tgrün\u2028x"),
        (b"a\x00b", "f is binary, so it cannot be used as text"),
        ("grün\n".encode("utf-16"), "f is UTF-16 text; convert it first: iconv -f UTF-16 -t UTF-8"),
        (b"a\r\nb\r\n", "1\ta\n2\tb\n[they end with CR LF]"),
        (b"a\rb", "1\ta\rb"),
        (b"\xef\xbb\xbfa", "1\t\ufeffa"),
    ],
)
async def test_odd_contents(workspace: Path, data: bytes, content: str) -> None:
    (workspace / "f").write_bytes(data)
    assert (await read(workspace, "f")).content == content


async def test_what_cannot_be_read_is_said(workspace: Path) -> None:
    (workspace / "d").mkdir()
    assert (await read(workspace, "missing")).content == "missing does not exist in the workspace"
    assert (await read(workspace, "d")).content == "d is a directory"
    (workspace / "f").write_text("x")
    assert (await read(workspace, "f/x")).error


async def test_a_file_of_any_size_is_read_in_pages_but_not_changed(workspace: Path) -> None:
    (workspace / "big").write_text("".join(f"line {n}\n" for n in range(1, 400_001)))
    assert (workspace / "big").stat().st_size > MAX_BYTES
    output = await read(workspace, "big", offset=399_999, limit=1)
    assert output.content == "399999\tline 399999\n[lines 399999 to 399999 of 400000; go on with offset 400000]"
    assert "only files up to 2097152 can be changed here" in (await patch(workspace, "big", "line 7\n", "x")).content
    assert (await search(workspace, pattern="^line 399999$")).content == "big:399999: line 399999"


async def test_reading_goes_so_far_into_a_file_and_says_so(workspace: Path) -> None:
    with (workspace / "huge").open("wb") as file:
        file.write(b"first\n" + b"x" * (SCANNED_BYTES + 10) + b"\nlast\n")
    assert "[lines 1 to 1 of more than 2; go on with offset 2]" in (await read(workspace, "huge", limit=1)).content
    behind = await read(workspace, "huge", offset=3)
    assert behind.content == ("huge has more than 2 lines; offset 3 is behind what can be read here: use the terminal")


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


async def test_line_ends_that_get_lost_are_told(workspace: Path) -> None:
    (workspace / "f.bat").write_bytes(b"one\r\ntwo\r\n")
    assert (await write(workspace, "f.bat", "one\r\n")).content == "wrote f.bat (5 bytes)"
    output = await write(workspace, "f.bat", "one\n")
    assert output.content == "wrote f.bat (4 bytes; its lines ended with CR LF, now they end with LF)"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_a_mask_is_known_whatever_its_line_ends_with(workspace: Path, end: str) -> None:
    before = f"caf\u00e9{end}API_TOKEN=real-secret-1234{end}".encode("latin-1")
    (workspace / "env").write_bytes(before)
    assert (await write(workspace, "env", "API_TOKEN=***\n")).error
    assert (workspace / "env").read_bytes() == before


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


async def test_line_ends_are_kept(workspace: Path) -> None:
    (workspace / "f.bat").write_bytes(b"one\r\ntwo\r\n")
    await patch(workspace, "f.bat", "two", "2\n3")
    assert (workspace / "f.bat").read_bytes() == b"one\r\n2\r\n3\r\n"


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
