"""One user's life in the store: every kind of record that a script can write, in use and ended."""

from __future__ import annotations

from hermes_tasks.contracts.kinds import RunKind
from hermes_tasks.contracts.memory import Document, EntryKind
from hermes_tasks.store.memory import DocumentState
from hermes_tasks.store.permits import Lane, Permits
from hermes_tasks.store.rates import Rates
from tests.integration.store.world import ANSWER, DONE, FAILED, USER, World, tool_step

ENDPOINT = "provider"


async def full_scenario(world: World) -> None:
    """Ended and open turns, batches, reviews, fires, deliveries, channels, backlogs, and a reader of events."""
    await world.events.start()
    await world.users.new_key(USER)
    talk, other = await world.session("talk"), await world.session("other")
    await world.sessions.post(USER, talk, "first", key="k1")
    parent = await world.hold(world.bell.ids("turn")[0])
    await parent.pin("first", "system")
    await parent.append(tool_step())
    await world.runs.save_long(USER, parent.record.id, "0-0", "long")
    children = await world.batch(parent, 5)
    assert await parent.suspend()
    await world.end(children[0])
    await world.end(children[1], FAILED)
    await world.runs.cancel(USER, children[2])
    for child in children[3:]:
        await world.end(child)
    again = await world.hold(parent.record.id)
    await again.append(ANSWER)
    await again.finish(DONE)
    await world.turn(talk, "second", FAILED)
    await world.drained(talk)
    await world.channel.append(USER, talk, EntryKind.MEMORY_WRITE, {"a": 1})
    await world.memory.write(USER, Document.USER, DocumentState(0, ()), ("tea",))
    await world.end("review.talk.1")
    for number, slot in enumerate((60_000, 120_000)):
        planned = await world.now() + slot
        await world.jobs.add(USER, f"j{number}", "digest", "say", {"every": "1m"}, planned, 5)
        await world.jobs.fire(USER, f"j{number}", "1", planned, planned + 1, f"fire-{number}", missed=False, skipped=0)
        await world.end(f"fire-{number}")
    await world.jobs.deliver(USER, "fire-0")
    await world.jobs.ticked()
    await world.jobs.claim_slot("reindex", 1, 3600)
    await world.store.check()
    # And what is still at work: an open turn with a waiting parent, backlogs, a resumed run that found no place.
    await world.turn(other, "third")
    for _ in range(5):
        await world.say(other)
    opened = await world.hold((await world.sessions.get(USER, other))["open"])
    await world.batch(opened, 2, away=True)
    await world.batch(opened, 5)
    assert await opened.suspend()
    waiting = await world.held(RunKind.CURATION)
    [only] = await world.batch(waiting, 1)
    assert await waiting.suspend()
    await world.create(RunKind.CURATION)
    for _ in range(9):
        await world.create()
    await world.end(only)
    for number in range(6):
        await world.say(await world.session(f"more{number}"))
    await _provider(world)


async def _provider(world: World) -> None:
    """A provider with a call, a run that has a place and did not come, and one that waits; and two minutes of rates."""
    lane, permits, rates = Lane(ENDPOINT, "gpt", 1, requests_per_minute=5), Permits(world.store), Rates(world.store)
    for run in "ab":
        await permits.enter(lane, f"rest|{USER}|{run}", stands=True)
    await permits.leave(lane, f"rest|{USER}|a")
    await permits.pause(lane, None)
    await permits.enter(lane, f"turn|{USER}|c", stands=True)
    await rates.take(lane, 1)
    [counted] = await world.command("KEYS", "ht:{p/*")
    await world.command("PEXPIRE", counted, 59_000)  # its minute is over
    await rates.take(lane, 1)
