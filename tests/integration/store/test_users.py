"""Users, their keys, and their two documents."""

from __future__ import annotations

import asyncio

import pytest

from hermes_tasks.contracts.errors import Conflict, InvalidRequest, LeaseLost, NotFound
from hermes_tasks.contracts.memory import Document
from hermes_tasks.store.memory import DocumentState
from tests.integration.store.world import USER, World, guard_of, tool_step

pytestmark = pytest.mark.anyio


async def test_a_user_has_a_record_and_a_key_that_is_stored_hashed(world: World) -> None:
    key = await world.users.add("bob", zone="Europe/Lisbon", language="pt")
    bob = await world.users.get("bob")
    assert (bob.id, bob.state, bob.zone, bob.language, bob.model) == ("bob", "active", "Europe/Lisbon", "pt", "")
    assert 0 < bob.created <= await world.now()
    assert await world.users.of_key(key) == "bob"
    assert await world.users.of_key("ht_other") is None
    assert key not in str(await world.command("HGETALL", "ht:keys"))
    second = await world.users.new_key("bob", "chosen")
    assert (second, await world.users.of_key("chosen"), await world.users.of_key(key)) == ("chosen", "bob", "bob")
    assert [user.id for user in await world.users.all()] == [USER, "bob"]


async def test_a_user_is_made_once(world: World) -> None:
    results = await asyncio.gather(*(world.users.add("bob") for _ in range(4)), return_exceptions=True)
    assert [type(result) for result in results].count(str) == 1
    assert [type(result) for result in results].count(Conflict) == 3


async def test_a_user_whose_answer_was_lost_is_not_told_that_somebody_else_made_it(world: World) -> None:
    async def add(call: str) -> str:
        return str((await world.store.call("user_put", "bob", "add", call, "zone", "UTC"))["r"])

    assert [await add("c1"), await add("c1"), await add("c2")] == ["ok", "ok", "exists"]


@pytest.mark.parametrize("name", ["", "Bob", "a b", "a:b", "a{b", "ä", "-a", "x" * 65])
async def test_a_bad_id_is_refused_and_nothing_is_stored(world: World, name: str) -> None:
    with pytest.raises(InvalidRequest, match="invalid user id"):
        await world.users.add(name)
    assert await world.command("SMEMBERS", "ht:users") == {USER}


async def test_changes_are_checked(world: World) -> None:
    changed = await world.users.change(USER, zone="Asia/Tokyo")
    assert (changed.zone, changed.language) == ("Asia/Tokyo", "")
    assert (await world.users.change(USER, language="ja")).zone == "Asia/Tokyo"
    for bad in ({"zone": "Mars/Olympus"}, {}):
        with pytest.raises(InvalidRequest):
            await world.users.change(USER, **bad)
    with pytest.raises(InvalidRequest, match="unknown time zone"):
        await world.users.add("bob", zone="nowhere")
    for call in (world.users.get("bob"), world.users.change("bob", zone="UTC")):
        with pytest.raises(NotFound):
            await call


async def test_an_erased_user_is_gone_and_cannot_be_made_again(world: World) -> None:
    await world.on("HSET", "user", "state", "erased")
    with pytest.raises(NotFound):
        await world.users.get(USER)
    with pytest.raises(Conflict):
        await world.users.add(USER)
    with pytest.raises(InvalidRequest):
        await world.store.call("user_put", USER, "set", "c", "zone", "UTC")
    with pytest.raises(InvalidRequest):
        await world.session()


# -- documents -------------------------------------------------------------------------------------------------------


async def test_a_document_is_replaced_if_it_is_still_what_was_read(world: World) -> None:
    empty = await world.memory.document(USER, Document.MEMORY)
    assert empty == DocumentState(0, ())
    assert await world.memory.write(USER, Document.MEMORY, empty, ("one", "zwei ü")) is None
    newer = await world.memory.write(USER, Document.MEMORY, empty, ("other",))
    assert newer == DocumentState(1, ("one", "zwei ü")) == await world.memory.document(USER, Document.MEMORY)
    assert await world.memory.document(USER, Document.USER) == empty


async def test_of_two_writers_one_is_told_to_read_again(world: World) -> None:
    empty = DocumentState(0, ())
    results = await asyncio.gather(*(world.memory.write(USER, Document.USER, empty, (f"e{n}",)) for n in range(4)))
    assert results.count(None) == 1
    assert (await world.memory.document(USER, Document.USER)).version == 1


async def test_a_tools_write_and_its_step_are_stored_together_once(world: World) -> None:
    journal = await world.held()
    guard, empty = guard_of(journal), DocumentState(0, ())
    for _ in range(2):
        assert await world.memory.write(USER, Document.USER, empty, ("tea",), guard=guard, step=tool_step("ok")) is None
    assert await world.memory.document(USER, Document.USER) == DocumentState(1, ("tea",))
    assert await world.runs.steps(USER, journal.record.id) == [tool_step("ok")]


async def test_a_tools_write_on_an_old_version_stores_no_step(world: World) -> None:
    journal = await world.held()
    await world.memory.write(USER, Document.USER, DocumentState(0, ()), ("tea",))
    guard = guard_of(journal)
    newer = await world.memory.write(USER, Document.USER, DocumentState(0, ()), ("x",), guard=guard, step=tool_step())
    assert newer == DocumentState(1, ("tea",))
    assert await world.runs.steps(USER, journal.record.id) == []


async def test_a_tools_write_at_a_taken_index_stores_nothing(world: World) -> None:
    journal = await world.held()
    await journal.append(tool_step("first"))
    with pytest.raises(LeaseLost):
        await world.memory.write(
            USER, Document.USER, DocumentState(0, ()), ("x",), guard=guard_of(journal, 0), step=tool_step("other")
        )
    assert await world.memory.document(USER, Document.USER) == DocumentState(0, ())


async def test_a_document_of_nobody_is_refused(world: World) -> None:
    with pytest.raises(InvalidRequest):
        await world.memory.write("bob", Document.USER, DocumentState(0, ()), ("x",))
