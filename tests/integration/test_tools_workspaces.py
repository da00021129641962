from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from hermes_tasks.contracts.errors import InvalidRequest
from hermes_tasks.tools.files import ReadFile, WriteFile
from hermes_tasks.tools.search import SearchFiles
from hermes_tasks.tools.terminal import Terminal
from hermes_tasks.tools.workspace import NOBODY, Workspaces, tool_uid
from tests.integration.tool_calls import AS_ROOT, call, passable, run_of, workspace_of

# ruff: noqa: ASYNC240 - what a test looks at may block it
pytestmark = pytest.mark.anyio
AS_ROOT_ONLY = pytest.mark.skipif(not AS_ROOT, reason="only a root worker gives workspaces away")


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return passable(tmp_path_factory.mktemp("workspaces")) / "ws"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Which run works where


async def test_each_session_and_each_job_has_a_directory_of_its_own(root: Path) -> None:
    workspaces = Workspaces(root)
    child = run_of("ann", session="Chat-1")
    fire = run_of("ann", spec={"job": "j1", "prompt": "p"})
    lone = run_of("ann", id="r7")
    assert workspaces.path_of(child) == root / "ann" / "sessions" / "Chat-1"
    assert workspaces.path_of(fire) == root / "ann" / "jobs" / "j1"
    assert workspaces.path_of(lone) == root / "ann" / "runs" / "r7"
    assert not root.exists()
    for run in (child, fire, lone):
        assert workspaces.made_for(run) == workspaces.path_of(run)
        assert mode(workspaces.path_of(run)) == 0o700


async def test_a_session_called_like_a_job_is_no_job(root: Path) -> None:
    paths = {Workspaces(root).made_for(run_of("ann", **more)) for more in ({"session": "x"}, {"spec": {"job": "x"}})}
    assert len(paths) == 2


async def test_what_one_run_leaves_the_next_of_its_session_finds_and_no_other(root: Path) -> None:
    await call(WriteFile(), workspace_of(root, "ann", "s1"), {"path": "f", "content": "mine"})
    assert (await call(ReadFile(), workspace_of(root, "ann", "s1"), {"path": "f"})).content == "1\tmine"
    for user, session in (("ann", "s2"), ("bob", "s1")):
        assert (await call(ReadFile(), workspace_of(root, user, session), {"path": "f"})).error


async def test_commands_work_in_the_sessions_directory(root: Path) -> None:
    workspace = workspace_of(root, "ann")
    output = await call(Terminal(timeout_s=20, output_chars=1000), workspace, {"command": "pwd; echo hello > f"})
    assert str(workspace) in output.content
    assert (await call(ReadFile(), workspace, {"path": "f"})).content == "1\thello"


@pytest.mark.parametrize("user", ["../bob", "", ".", "..", "a/b", "Ann", "a\n"])
async def test_a_user_id_is_no_path(root: Path, user: str) -> None:
    with pytest.raises(InvalidRequest, match="user id"):
        Workspaces(root).made_for(run_of(user, session="s1"))


@pytest.mark.parametrize("name", ["../bob", ".", "..", "a/b", ".hidden", "a\n", "x" * 129])
async def test_the_name_of_a_session_or_job_is_no_path(root: Path, name: str) -> None:
    for run in (run_of("ann", session=name), run_of("ann", spec={"job": name}), run_of("ann", id=name)):
        with pytest.raises(InvalidRequest, match="invalid workspace"):
            Workspaces(root).made_for(run)


# Whose they are


async def test_all_of_a_users_directories_have_one_owner_and_no_other_user_has_it(root: Path) -> None:
    places = {user: [workspace_of(root, user, session) for session in ("s1", "s2")] for user in ("ann", "bob", "eve")}
    owners = {user: {path.stat().st_uid for path in paths} for user, paths in places.items()}
    assert all(len(owner) == 1 for owner in owners.values())
    numbers = set.union(*owners.values())
    if AS_ROOT:
        assert len(numbers) == 3
        assert numbers.isdisjoint({0, NOBODY})
        assert {tool_uid(path) for path in places["ann"]} == owners["ann"]
    else:
        assert numbers == {os.getuid()}
        assert tool_uid(places["ann"][0]) is None


@AS_ROOT_ONLY
async def test_the_directories_above_are_not_the_users(root: Path) -> None:
    """Else a command could put a link in the place of a workspace that is to come, and lead tools to another user."""
    workspace = workspace_of(root, "ann")
    for above in (workspace.parent, workspace.parent.parent):
        assert above.stat().st_uid == 0
        assert mode(above) == 0o711
    command = "ln -s ../../bob/sessions/s1 ../s2; mkdir ../s3; mv ../s1 ../s4; ln -s / ../../jobs; true"
    await call(Terminal(timeout_s=20, output_chars=1000), workspace, {"command": command})
    assert [entry.name for entry in workspace.parent.iterdir()] == ["s1"]
    assert [entry.name for entry in workspace.parent.parent.iterdir()] == ["sessions"]


@pytest.mark.parametrize("place", ["ann", "ann/sessions", "ann/sessions/s1"])
async def test_a_link_in_the_place_of_a_directory_is_not_followed(root: Path, place: str) -> None:
    elsewhere = workspace_of(root, "bob")
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).symlink_to(elsewhere)
    with pytest.raises(
        InvalidRequest, match=r"cannot use the workspace .*link or no directory; check tools\.workspaces"
    ):
        workspace_of(root, "ann")
    assert not any(elsewhere.iterdir())


@AS_ROOT_ONLY
async def test_a_directory_that_was_the_users_is_taken_back(root: Path) -> None:
    number = workspace_of(root, "ann").stat().st_uid
    os.chown(root / "ann", number, number)
    (root / "ann").chmod(0o700)
    workspace_of(root, "ann", "s2")
    assert (root / "ann").stat().st_uid == 0


@AS_ROOT_ONLY
async def test_what_an_ordinary_worker_made_gets_a_user_of_its_own(root: Path, tmp_path: Path) -> None:
    workspace, ordinary = workspace_of(root, "ann"), 54_999
    (tmp_path / "others").write_text("x")
    (workspace / "d").mkdir()
    for path in (workspace / "d" / "f", workspace / "mine"):
        path.write_text("x")
    (workspace / "link").symlink_to(tmp_path / "others")
    for path in (root, workspace, *workspace.rglob("*")):
        os.chown(path, ordinary, ordinary, follow_symlinks=False)
    os.chown(workspace / "mine", 54_998, 54_998)
    again = workspace_of(root, "ann")
    own = again.stat().st_uid
    assert own not in (0, ordinary, NOBODY)
    owners = {path.name: path.lstat().st_uid for path in again.rglob("*")}
    assert owners == {"d": own, "f": own, "link": own, "mine": 54_998}
    assert (tmp_path / "others").stat().st_uid == os.getuid()


@AS_ROOT_ONLY
async def test_two_names_never_share_a_number_and_one_name_keeps_it(root: Path) -> None:
    workspace = workspace_of(root, "ann")
    number = workspace.stat().st_uid
    mark = root / ".uids" / str(number)
    mark.write_text("somebody-else")  # as if another name had come to this number first
    for _ in range(2):
        workspace.rmdir()
        assert workspace_of(root, "ann").stat().st_uid == number + 1
    assert not [entry for entry in mark.parent.iterdir() if entry.name.startswith(".")]


@AS_ROOT_ONLY
async def test_where_numbers_are_few_all_share_nobody(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chown = os.chown

    def few(path: Path, uid: int, gid: int) -> None:
        if uid > NOBODY:
            raise OSError(errno.EINVAL, "Invalid argument")
        chown(path, uid, gid)

    monkeypatch.setattr(os, "chown", few)
    assert workspace_of(root, "eve").stat().st_uid == NOBODY


# What cannot be used


@AS_ROOT_ONLY
async def test_a_workspace_of_root_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="the workspace belongs to root"):
        await call(WriteFile(), tmp_path, {"path": "f", "content": "x"})


async def test_a_missing_workspace_is_said(root: Path) -> None:
    gone = workspace_of(root, "ann") / "gone"
    assert (await call(ReadFile(), gone, {"path": "f"})).error
    assert (await call(WriteFile(), gone, {"path": "f", "content": "x"})).error
    assert (await call(SearchFiles(), gone, {"pattern": "x"})).error
    assert not gone.exists()


async def test_a_workspace_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequest, match=r"cannot use the workspace .*check tools\.workspaces"):
        workspace_of(tmp_path / "file", "ann")
