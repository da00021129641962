"""The HTTP API against a real store: what is accepted, what is refused and in what words, and who sees what."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hermes_tasks.contracts.kinds import ExitReason, RunState
from hermes_tasks.contracts.memory import Document
from hermes_tasks.contracts.runs import Outcome
from hermes_tasks.settings.sections import FrontSettings
from hermes_tasks.store.journal import StoreJournal
from hermes_tasks.store.memory import DocumentState
from hermes_tasks.testing.waiting import eventually
from tests.integration.front_stack import answer, front, opened, posted

pytestmark = pytest.mark.anyio
BLOCK = "Before.\n<memory-context>\nSECRET-RECALL-71\n</memory-context>\nAfter."


async def ended(client: Any, session: str, turns: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    async def enough() -> bool:
        found[:] = (await client.get(f"/v1/sessions/{session}/history")).json()["turns"]
        return len(found) >= turns

    await eventually(enough)
    return found


async def test_a_message_becomes_one_turn_in_history(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada, "s-1")
        assert session == "s-1"
        message = await posted(ada, session, "add milk")
        [turn] = await ended(ada, session, 1)
        assert (turn["turn"], turn["run"], turn["state"]) == (1, message, "completed")
        assert (turn["user"], turn["assistant"]) == ("add milk", "You said: add milk")
        assert turn["at_ms"] > 1_600_000_000_000
        assert not {"opening", "steps", "generation"} & set(turn)
        # The front executes what it began: no doorbell for it.
        assert stack.begun == [("ada", message)]
        assert [ring for ring in stack.bell.rings if ring.task == "turn"] == []
        channel = (await ada.get(f"/v1/channel/{session}")).json()
        assert channel == {"session": session, "appended": 1, "applied": 0}


async def test_two_messages_at_once_are_answered_one_after_the_other(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as phone, await stack.http("ada") as desk:
        session = await opened(phone)
        first, second = await asyncio.gather(
            posted(phone, session, "first: add milk"), posted(desk, session, "second: add eggs")
        )
        turns = await ended(phone, session, 2)
        assert {turn["run"] for turn in turns} == {first, second}
        assert [turn["assistant"] for turn in turns] == [f"You said: {turn['user']}" for turn in turns]


async def test_the_same_key_twice_is_one_message(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        path, key = f"/v1/sessions/{session}/messages", {"Idempotency-Key": "k1"}
        first = (await ada.post(path, json={"text": "once"}, headers=key)).json()
        again = (await ada.post(path, json={"text": "once"}, headers=key)).json()
        assert (first["accepted"], again["accepted"]) == (True, False)
        assert again["message"] == first["message"]
        other = await ada.post(path, json={"text": "something else"}, headers=key)
        assert (other.status_code, other.json()["error"]["type"]) == (409, "conflict")
        assert len(await ended(ada, session, 1)) == 1


async def test_what_belongs_to_another_user_is_not_there(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada, await stack.http("bob") as bob:
        session = await opened(ada, "diary")
        message = await posted(ada, session, "my secret")
        await ended(ada, session, 1)
        answers = [
            await bob.get("/v1/sessions/diary"),
            await bob.get("/v1/sessions/diary/history"),
            await bob.get("/v1/sessions/diary/events"),
            await bob.post("/v1/sessions/diary/messages", json={"text": "hi"}),
            await bob.get("/v1/channel/diary"),
            await bob.get(f"/v1/runs/{message}"),
            await bob.post(f"/v1/runs/{message}/cancel"),
        ]
        assert [answer.status_code for answer in answers] == [404] * len(answers)
        assert {answer.json()["error"]["type"] for answer in answers} == {"not_found"}
        # The same name is another session for another user.
        assert await opened(bob, "diary") == "diary"
        assert (await bob.get("/v1/sessions/diary/history")).json()["turns"] == []
        assert (await bob.get("/v1/runs")).json() == {"runs": []}
        assert [run["run"] for run in (await ada.get("/v1/runs")).json()["runs"]][-1] == message


async def test_keys_are_needed_and_states_are_respected(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http(None) as nobody, await stack.http("ada") as ada:
        for header in (None, "Bearer", "Bearer wrong", "Basic YTpi", "Bearer " + "x" * 5000):
            headers = {} if header is None else {"Authorization": header}
            refused = await nobody.get("/v1/me", headers=headers)
            assert refused.status_code == 401, header
            assert refused.headers["www-authenticate"] == "Bearer"
            assert refused.json()["error"]["type"] == "unauthorized"
        assert (await ada.get("/v1/me")).json() == {"user": "ada", "state": "active", "zone": "UTC", "language": ""}
        async with await stack.http("bob") as bob:
            await stack.services.store.read(("HSET", "ht:{u:bob}:user", "state", "disabled"))
            refused = await bob.get("/v1/me")
            assert (refused.status_code, refused.json()["error"]["type"]) == (403, "forbidden")


BAD_MESSAGES: tuple[tuple[dict[str, Any], int, str, str], ...] = (
    ({"text": "  \n "}, 400, "text", "empty"),
    ({}, 400, "body", "text"),
    ({"text": "a", "content": "b"}, 400, "body", "not both"),
    ({"text": 7}, 400, "text", "string"),
    ({"text": "a", "colour": "red"}, 400, "colour", "not permitted"),
    ({"text": "é" * 101}, 413, "text", "101 characters and 100 are allowed"),
    ({"content": [{"type": "text", "text": "é" * 101}]}, 413, "content", "front.max_message_chars"),
    ({"content": [{"type": "text", "text": "look"}, {"type": "image_url"}]}, 400, "content.1", "'image_url'"),
    ({"content": [{"type": "input_audio"}]}, 400, "content.0", "'input_audio'"),
    ({"content": [{"type": "text"}]}, 400, "content.0", "without a text"),
    ({"content": []}, 400, "content", "empty"),
)


async def test_bad_messages_are_refused_by_name(store_url: str) -> None:
    async with front(store_url, settings=FrontSettings(max_message_chars=100)) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        for body, status, field, words in BAD_MESSAGES:
            refused = await ada.post(f"/v1/sessions/{session}/messages", json=body)
            error = refused.json()["error"]
            assert (refused.status_code, error["field"]) == (status, field), body
            assert words in error["message"], body
            assert "\n" not in error["message"]
        assert stack.begun == []
        accepted = await ada.post(f"/v1/sessions/{session}/messages", json={"text": "é" * 100})
        assert accepted.status_code == 202


async def test_text_parts_are_one_message(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        parts = [{"type": "text", "text": "add milk"}, {"type": "text", "text": "and eggs"}]
        await ada.post(f"/v1/sessions/{session}/messages", json={"content": parts})
        [turn] = await ended(ada, session, 1)
        assert turn["user"] == "add milk\nand eggs"


async def test_bodies_that_are_no_json_of_ours_are_refused(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        for content in (
            b'{"text": "half \\ud800 of a pair"}',
            b'{"text": ',
            b'["text"]',
            b"\xff\xfe",
            b"",
            b"[" * 100_000,
        ):
            refused = await ada.post(
                f"/v1/sessions/{session}/messages", content=content, headers={"Content-Type": "application/json"}
            )
            assert refused.status_code == 400, (content[:40], refused.text)
            assert set(refused.json()["error"]) == {"type", "message", "field"}
        assert stack.begun == []


async def test_session_ids_that_cannot_be_are_refused(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        for session in ("", " ", "a b", "a/b", "../ada", "é", "x" * 129, "s:1", "{s}"):
            refused = await ada.post("/v1/sessions", json={"session": session})
            assert (refused.status_code, refused.json()["error"]["field"]) == (400, "session"), session
        assert (await ada.get("/v1/sessions")).json() == {"sessions": []}
        assert (await ada.get("/v1/sessions/%7Bs%7D:1")).status_code == 404


async def test_a_body_over_the_limit_is_refused_announced_or_not(store_url: str) -> None:
    async def pieces() -> Any:
        for _ in range(100):
            yield b"x" * 100

    async with front(store_url, settings=FrontSettings(max_body_bytes=5000)) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        for content in (b"x" * 5001, pieces()):
            refused = await ada.post(
                f"/v1/sessions/{session}/messages", content=content, headers={"Content-Type": "application/json"}
            )
            assert (refused.status_code, refused.json()["error"]["type"]) == (413, "too_large")
            assert "front.max_body_bytes" in refused.json()["error"]["message"]


async def test_every_error_has_one_shape(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        answers = [
            await ada.get("/nothing/here"),
            await ada.delete("/v1/sessions"),
            await ada.get("/v1/sessions/none/history"),
            await ada.get("/v1/runs?limit=0"),
            await ada.get("/v1/runs?limit=201"),
            await ada.get("/v1/inbox?limit=many"),
        ]
        assert [answer.status_code for answer in answers] == [404, 405, 404, 400, 400, 400]
        for refused in answers:
            assert set(refused.json()["error"]) == {"type", "message", "field"}
            assert refused.headers["x-content-type-options"] == "nosniff"
            assert "server" not in refused.headers


async def test_too_many_waiting_messages_are_refused_for_now(store_url: str) -> None:
    settings = FrontSettings(max_waiting_messages=2)
    async with front(store_url, play=None, settings=settings) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        ids = [await posted(ada, session, f"number {n}") for n in range(3)]  # one is begun, two wait
        refused = await ada.post(f"/v1/sessions/{session}/messages", json={"text": "one more"})
        assert (refused.status_code, refused.json()["error"]["type"]) == (503, "store_full")
        assert int(refused.headers["retry-after"]) > 0
        shown = (await ada.get(f"/v1/sessions/{session}")).json()
        assert shown["open"] == ids[0]
        assert [(waiting["message"], waiting["text"]) for waiting in shown["waiting"]] == [
            (message, f"number {n}") for n, message in enumerate(ids)
        ]


async def test_internal_tags_are_in_no_answer(store_url: str) -> None:
    async def leak(journal: StoreJournal) -> None:
        await answer(journal, BLOCK)

    async with front(store_url, play=leak) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        await posted(ada, session, "what do you know?")
        [turn] = await ended(ada, session, 1)
        assert turn["assistant"] == "Before.\n\nAfter."


async def test_history_comes_in_pages(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        for n in range(1, 8):
            await posted(ada, session, f"number {n}")
        await ended(ada, session, 7)

        async def page(**params: int) -> list[int]:
            answer = await ada.get(f"/v1/sessions/{session}/history", params=params)
            return [turn["turn"] for turn in answer.json()["turns"]]

        assert await page(limit=3) == [5, 6, 7]
        assert await page(limit=3, before=5) == [2, 3, 4]
        assert await page(limit=3, before=2) == [1]
        assert await page(limit=3, before=1) == []
        assert await page(limit=3, before=100) == []


async def test_a_cancelled_turn_stays_in_history_as_such(store_url: str) -> None:
    async with front(store_url, play=None) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        message = await posted(ada, session, "never mind")
        assert (await ada.get(f"/v1/runs/{message}")).json()["state"] == "queued"
        cancelled = (await ada.post(f"/v1/runs/{message}/cancel")).json()
        assert cancelled == {"run": message, "state": "cancelled"}
        assert (await ada.post(f"/v1/runs/{message}/cancel")).json() == cancelled
        [turn] = await ended(ada, session, 1)
        assert (turn["state"], turn["reason"], turn["assistant"]) == ("cancelled", "cancelled", "")
        shown = (await ada.get(f"/v1/runs/{message}")).json()
        assert (shown["kind"], shown["state"], shown["exit_reason"]) == ("turn", "cancelled", "cancelled")
        assert (shown["children"], shown["attempts"], shown["takeovers"]) == ([], 0, 0)


async def test_a_failed_turn_says_why(store_url: str) -> None:
    async def fail(journal: StoreJournal) -> None:
        outcome = Outcome(state=RunState.FAILED, exit_reason=ExitReason.MODEL_ERROR, error="the model said no")
        await journal.finish(outcome)

    async with front(store_url, play=fail) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        message = await posted(ada, session, "hello")
        [turn] = await ended(ada, session, 1)
        assert (turn["state"], turn["reason"], turn["error"]) == ("failed", "model_error", "the model said no")
        assert (await ada.get(f"/v1/runs/{message}")).json()["error"] == "the model said no"


async def test_jobs_are_added_listed_and_bounded(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        made = await ada.post("/v1/jobs", json={"name": "digest", "prompt": "what is new?", "every": "2m"})
        assert made.status_code == 201, made.text
        [job] = (await ada.get("/v1/jobs")).json()["jobs"]
        assert (job["job"], job["name"], job["prompt"]) == (made.json()["job"], "digest", "what is new?")
        assert job["next_ms"] > 0
        for body in (
            {"prompt": "x", "every": "2m", "at": "2999-01-01T00:00:00Z"},
            {"prompt": "x"},
            {"prompt": " ", "every": "2m"},
            {"prompt": "x", "every": "59s"},
            {"prompt": "x", "at": "2001-01-01T00:00:00Z"},
            {"prompt": "x", "at": "tomorrow-ish"},
        ):
            refused = await ada.post("/v1/jobs", json=body)
            assert refused.status_code == 400, body
            assert refused.json()["error"]["message"]
        for _ in range(4):
            assert (await ada.post("/v1/jobs", json={"prompt": "x", "every": "1h"})).status_code == 201
        assert (await ada.post("/v1/jobs", json={"prompt": "x", "every": "1h"})).status_code == 400


async def test_the_inbox_shows_what_was_delivered(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        store = stack.services.store
        for n in range(3):
            mail = {"id": f"m{n}", "job": "j", "name": "digest", "slot": 1000, "at": 2000 + n, "status": "completed",
                    "reason": "completed", "text": BLOCK, "error": ""}  # fmt: skip
            await store.read(("RPUSH", "ht:{u:ada}:mail", json.dumps(mail)))
        assert [mail["id"] for mail in (await ada.get("/v1/inbox?limit=2")).json()["inbox"]] == ["m1", "m2"]
        [newest] = (await ada.get("/v1/inbox?limit=1")).json()["inbox"]
        assert newest == {
            "id": "m2", "job": "j", "name": "digest", "status": "completed", "reason": "completed",
            "text": "Before.\n\nAfter.", "error": None, "slot_ms": 1000, "at_ms": 2002,
        }  # fmt: skip


async def test_memory_says_how_full_it_is(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        empty = (await ada.get("/v1/memory")).json()
        assert empty["memory"] == {"entries": [], "chars": 0, "limit_chars": 2200}
        assert empty["user"] == {"entries": [], "chars": 0, "limit_chars": 1375}
        await stack.services.memory.write("ada", Document.MEMORY, DocumentState(0, ()), ("likes tea", "é"))
        full = (await ada.get("/v1/memory")).json()
        assert full["memory"] == {"entries": ["likes tea", "é"], "chars": 9 + 3 + 1, "limit_chars": 2200}


async def test_health_is_open_and_tells_nothing_else(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http(None) as nobody:
        well = await nobody.get("/healthz")
        assert (well.status_code, well.json()) == (200, {"ok": True})


async def test_a_front_that_stops_leaves_new_turns_to_a_worker(store_url: str) -> None:
    async with front(store_url) as stack, await stack.http("ada") as ada:
        session = await opened(ada)
        stack.server._state.stopping.set()
        message = await posted(ada, session, "late")
        assert stack.begun == []
        assert [ring.args for ring in stack.bell.rings if ring.task == "turn"] == [("ada", message)]
        assert (await ada.get("/healthz")).status_code == 503
