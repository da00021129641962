"""The table of keys is the truth: whatever is in the store stands in it, with its type, owner and expiry."""

from __future__ import annotations

import re
from contextlib import aclosing

import pytest

from hermes_tasks.store.keys import DAY_S, GLOBAL_KEYS, PROVIDER_KEYS, USER_KEYS, KeyRule, provider_key, user_key
from tests.integration.store.scenario import ENDPOINT, full_scenario
from tests.integration.store.world import CONFIG, USER, World

pytestmark = pytest.mark.anyio

#: What may stand for a word in brackets. Ids never hold a colon, so that no key can be read as two.
_WORD = r"[^:|]+"


def matcher(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(<\w+>)", pattern)
    return re.compile("".join(_WORD if part.startswith("<") else re.escape(part) for part in parts))


def rules_of(name: str) -> list[KeyRule]:
    prefix = user_key(USER, "")
    if name.startswith(prefix):
        return [rule for rule in USER_KEYS if matcher(rule.suffix).fullmatch(name.removeprefix(prefix))]
    prefix = provider_key(ENDPOINT).removesuffix("state")
    if name.startswith(prefix):
        return [rule for rule in PROVIDER_KEYS if matcher(rule.suffix).fullmatch(name.removeprefix(prefix))]
    return [rule for rule in GLOBAL_KEYS if matcher(rule.suffix).fullmatch(name)]


#: What the table announces, in seconds; None = the key stays.
LIFE: dict[str, int | None] = {
    "none": None, "trimmed at each creation": None, "deleted when applied": None,
    "7 days": CONFIG.keep_s, "90 days": CONFIG.spend_keep_s,
    "24 h": DAY_S, "1 day": DAY_S, "2 days after the last": 2 * DAY_S, "1 h": 3600,
    "1 min": 60, "2 min": 120, "2 periods, at least 1 h": 3600,
    "under 1 s": 1, "7 days after its end": CONFIG.keep_s, "7 days after the parent's end": CONFIG.keep_s,
    "7 days after delivery": CONFIG.keep_s, "1 h after the last turn": 3600,
}  # fmt: skip


async def expected_life(world: World, name: str, rule: KeyRule) -> int | None:
    """How long this key must live from now, seconds; None = it must not expire now."""
    suffix = name.removeprefix(user_key(USER, ""))
    kind, _, owner = suffix.partition(":")
    if rule.expiry == "7 days after delivery":
        began = await world.on("HGET", suffix, "state") == "delivered"
    elif rule.expiry == "1 h after the last turn":
        began = not (await world.sessions.get(USER, owner))["open"]
    elif rule.expiry.endswith("end"):
        run = await world.on("HGET", suffix, "parent") if kind == "batch" else owner
        began = (await world.state(run)).terminal
    else:
        began = True
    return LIFE[rule.expiry.split(";")[0]] if began else None


async def test_every_key_stands_in_the_table_once_with_its_type_and_expiry(world: World) -> None:
    await full_scenario(world)
    async with aclosing(world.events.follow(USER, "talk", "0-0")) as events:
        assert await anext(events)
        await world.runs.cancel(USER, "fire-0")  # a hint that is due, so that the sweep takes its lock
        await world.recovery.sweep()
        names = sorted(await world.command("KEYS", "*"))
        seen: set[str] = set()
        for name in names:
            rules = rules_of(name)
            assert [rule.suffix for rule in rules] == [rules[0].suffix] if rules else False, f"{name}: {rules}"
            [rule] = rules
            kind, ttl = await world.store.read(("TYPE", name), ("TTL", name))
            seen.add(rule.suffix)
            if ttl == -2 and rule.expiry == "under 1 s":
                continue
            assert kind == rule.kind, name
            life = await expected_life(world, name, rule)
            right = ttl == -1 if life is None else max(0, life - 60) <= ttl <= life
            assert right, f"{name}: expires in {ttl} s, {rule.expiry!r} is announced"
    assert {rule.suffix for rule in (*USER_KEYS, *PROVIDER_KEYS, *GLOBAL_KEYS)} - seen == set(), (
        "rows that no script writes"
    )


async def test_what_is_announced_as_empty_when_idle_is_gone_when_idle(world: World) -> None:
    await full_scenario(world)
    for _ in range(200):
        rung = [ring for ring in world.bell.take() if ring.task != "deliver"]
        if not rung:
            break
        for ring in rung:
            if ring.task == "drain":
                if draining := await world.channel.claim(USER, ring.args[1], ring.args[2], 50):
                    await world.channel.apply(draining, [], 0)
            elif (await world.state(ring.args[1])).terminal is False:
                await world.runs.cancel(USER, ring.args[1])
    await world.jobs.deliver(USER, "fire-1")
    idle = [rule for rule in USER_KEYS if "empty when idle" in rule.expiry or rule.suffix in ("due", "win:<class>")]
    names = await world.command("KEYS", user_key(USER, "*"))
    for rule in idle:
        left = [name for name in names if rules_of(name) == [rule]]
        parents = await world.runs.recent(USER, 200)
        assert left == [], f"{rule.suffix}: {left}; open: {[run.id for run in parents if not run.state.terminal]}"
