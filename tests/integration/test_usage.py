"""What a day used, and for what a run waits: over HTTP, in the client, the command line and a turn's last event."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hermes_tasks.client import Client
from hermes_tasks.contracts.clock import day_in
from hermes_tasks.contracts.kinds import RunKind, WaitReason
from hermes_tasks.contracts.runs import NewRun, Pause
from hermes_tasks.contracts.steps import ModelStep, Usage
from hermes_tasks.settings.sections import BudgetSettings
from hermes_tasks.store.journal import StoreJournal
from tests.integration.front_stack import POLICY, Stack, answer, front
from tests.integration.test_client_commands import shell

pytestmark = pytest.mark.anyio

PRICED = Usage(input_tokens=1_000_000, output_tokens=200_000, calls=1, cost_micro=720_000)
UNPRICED = Usage(input_tokens=10, output_tokens=5, calls=1, unpriced_calls=1)


async def charge(journal: StoreJournal, usage: Usage, model: str = "default") -> None:
    await journal.append(ModelStep(text="done", model=model, usage=usage))


async def spend(journal: StoreJournal) -> None:
    """The turn of a user."""
    await charge(journal, UNPRICED if journal.record.spec["text"] == "cheap?" else PRICED)
    await answer(journal, "done")


async def child(stack: Stack, user: str) -> StoreJournal:
    run = NewRun(id="child-1", kind=RunKind.CHILD, user=user, policy=POLICY)
    assert await stack.services.runs.create(run)
    journal = await stack.services.runs.claim(user, run.id)
    assert journal is not None
    return journal


async def test_the_last_event_history_and_run_tell_tokens_and_money(store_url: str) -> None:
    async with front(store_url, play=spend) as stack, Client(stack.url, await stack.key("ada")) as ada:
        session = await ada.open_session()
        told = await ada.ask(session, "how much?")
        expected = {
            "input_tokens": 1_000_000, "output_tokens": 200_000, "calls": 1, "cost": 0.72,
            "below": {"input_tokens": 0, "output_tokens": 0, "calls": 0, "cost": 0.0},
        }  # fmt: skip
        assert told.usage == expected
        assert [turn["usage"] for turn in await ada.history(session)] == [expected]
        assert (await ada.run(told.run))["usage"] == expected
        assert (await ada.ask(session, "cheap?")).usage["cost"] is None


async def test_a_day_by_kind_and_model(store_url: str) -> None:
    async with front(store_url, play=spend) as stack, Client(stack.url, await stack.key("ada")) as ada:
        session = await ada.open_session()
        await ada.ask(session, "how much?")
        journal = await child(stack, "ada")
        await charge(journal, UNPRICED, "free")
        day = await ada.usage()
        assert day == {
            "day": day_in("UTC", stack.services.clock.now()), "zone": "UTC", "budget": None,
            "rows": [
                {"kind": "child", "model": "free", "input_tokens": 10, "output_tokens": 5, "calls": 1, "cost": None},
                {"kind": "turn", "model": "default", "input_tokens": 1_000_000, "output_tokens": 200_000, "calls": 1,
                 "cost": 0.72},
            ],
            "total": {"input_tokens": 1_000_010, "output_tokens": 200_005, "calls": 2, "cost": None},
        }  # fmt: skip
        assert (await ada.usage("2001-02-03"))["rows"] == []
        async with await stack.http("ada") as http:
            for wrong in ("yesterday", "2001-02-30", ""):
                refused = await http.get("/v1/usage", params={"day": wrong})
                assert (refused.status_code, refused.json()["error"]["field"]) == (400, "day")
        async with Client(stack.url, await stack.key("bob")) as bob:
            assert (await bob.usage())["rows"] == [], "of nobody else"


async def test_the_commands_say_it_in_words(store_url: str, tmp_path: Path) -> None:
    async with front(store_url, play=spend) as stack, shell(stack, tmp_path) as sh:
        assert (await sh.run("usage", "--day", "2001-02-03"))[1] == "no model was asked on 2001-02-03\n"
        assert (await sh.run("usage", "--day", "never"))[::2] == (
            2,
            "hermes-tasks: no day 'never': write it as YYYY-MM-DD\n",
        )
        async with Client(stack.url, await stack.key("me")) as me:
            told = await me.ask(await me.open_session(), "how much?")
        journal = await child(stack, "me")
        await charge(journal, UNPRICED, "free")
        stack.services = replace(stack.services, budget=BudgetSettings(daily_tokens=2_000_000))
        await stack.restart()
        await journal.reserve(700, 2_000_000)
        lines = (await sh.run("usage"))[1].splitlines()
        assert [line.split() for line in lines[:4]] == [
            ["kind", "model", "calls", "in", "out", "cost"],
            ["child", "free", "1", "10", "5", "price", "unknown"],
            ["turn", "default", "1", "1000000", "200000", "0.720000"],
            ["total", "2", "1000010", "200005", "price", "unknown"],
        ]
        assert lines[4].startswith("budget: 1,200,015 of 2,000,000 tokens used, 700 set aside; new ones at 20")
        assert (await sh.json("usage"))["budget"]["reserved"] == 700
        shown = (await sh.run("runs", "show", told.run))[1]
        assert "tokens   1000000 in, 200000 out, 1 calls, 0.720000\n" in shown
        await journal.pause(Pause(why=WaitReason.BUDGET, detail="2030-01-02T00:00:00+00:00", wait_s=60))
        found = await sh.json("runs", "show", journal.record.id)
        assert (found["state"], found["waits_for"], found["waits_detail"][:10]) == ("waiting", "budget", "2030-01-02")
        assert "held: budget" in (await sh.run("runs", "list"))[1]
        await stack.services.runs.wake("me", journal.record.id, WaitReason.BUDGET)
        again = await stack.services.runs.claim("me", journal.record.id)
        assert again is not None
        await again.pause(Pause(why=WaitReason.RATE, detail="default", wait_s=60))
        assert "waiting: rate" in (await sh.run("runs", "show", journal.record.id))[1]
