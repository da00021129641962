"""The scripted server over real HTTP: the two forms of an answer, the log, and how it tells a test what went wrong."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from typing import Any

import aiohttp
import pytest

from hermes_tasks.demo.reply import ABSENT, Call, Reply
from hermes_tasks.demo.server import ModelServer

pytestmark = pytest.mark.anyio

HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


async def post(server: ModelServer, body: Any, raw: bytes | None = None) -> tuple[int, str]:
    data = raw if raw is not None else json.dumps(body).encode()
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.base_url}/chat/completions", data=data) as got,
    ):
        return got.status, await got.text()


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as got:
        return got.status, await got.text()


def chunks(text: str) -> list[dict[str, Any]]:
    *events, done, end = text.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


async def test_a_plain_answer() -> None:
    async with ModelServer([Reply(text="Hi there", usage=(3, 2), calls=[Call("echo", '{"a": 1}')])]) as server:
        status, text = await post(server, HELLO)
    answer = json.loads(text)
    assert status == 200
    assert (answer["object"], answer["model"], answer["created"] > 0) == ("chat.completion", "m", True)
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == "Hi there"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "echo", "arguments": '{"a": 1}'}
    assert choice["finish_reason"] == "tool_calls"
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


async def test_a_streamed_answer() -> None:
    reply = Reply(text="one two three four", usage=(3, 2), calls=[Call("echo", '{"a": 1}', fragments=3)])
    async with ModelServer([reply, reply]) as server:
        _, text = await post(server, {**HELLO, "stream": True, "stream_options": {"include_usage": True}})
        _, without = await post(server, {**HELLO, "stream": True})
    found = chunks(text)
    *parts, last = found
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 5
    assert all("usage" not in part for part in (*parts, *chunks(without)))
    deltas = [part["choices"][0]["delta"] for part in parts]
    assert "".join(delta.get("content") or "" for delta in deltas) == "one two three four"
    fragments = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert [fragment["index"] for fragment in fragments] == [0, 0, 0]
    assert "".join(fragment["function"]["arguments"] for fragment in fragments) == '{"a": 1}'
    assert (fragments[0]["id"], fragments[0]["function"]["name"]) == ("call_0_0", "echo")
    assert all("id" not in fragment and "name" not in fragment["function"] for fragment in fragments[1:])
    assert [part["choices"][0].get("finish_reason") for part in parts][-2:] == [None, "tool_calls"]
    assert {part["object"] for part in parts} == {"chat.completion.chunk"}


async def test_what_a_reply_leaves_out_is_not_on_the_wire() -> None:
    reply = Reply(calls=[Call("echo", None, id=ABSENT, index=ABSENT)], finish=ABSENT, usage=None, content_null=True)
    async with ModelServer([reply]) as server:
        _, text = await post(server, {**HELLO, "stream": True, "stream_options": {"include_usage": True}})
    parts = [chunk["choices"][0] for chunk in chunks(text)]
    assert parts[1]["delta"] == {
        "content": None,
        "tool_calls": [{"type": "function", "function": {"name": "echo", "arguments": None}}],
    }
    assert "finish_reason" not in parts[-1]


async def test_status_retry_after_and_body() -> None:
    replies = [Reply(status=429, retry_after="7"), Reply(body="<p>", content_type="text/html")]
    async with ModelServer(replies) as server, aiohttp.ClientSession() as session:
        async with session.post(f"{server.base_url}/chat/completions", json=HELLO) as got:
            assert (got.status, got.headers["Retry-After"]) == (429, "7")
            assert "429" in (await got.json())["error"]["message"]
        async with session.post(f"{server.base_url}/chat/completions", json=HELLO) as got:
            assert (got.status, got.content_type, await got.text()) == (200, "text/html", "<p>")


async def test_models_are_listed() -> None:
    async with ModelServer([]) as server:
        status, page = await get(f"{server.base_url}/models")
    assert (status, [model["id"] for model in json.loads(page)["data"]]) == (200, ["demo"])


@pytest.mark.parametrize("raw", [b"not json", b"[]", b"{}", b'{"messages": "hello"}', b"\xff"])
async def test_bad_requests_are_refused_and_use_no_reply(raw) -> None:
    async with ModelServer([Reply()]) as server:
        status, text = await post(server, None, raw)
        assert status == 400
        assert json.loads(text)["error"]["message"]
        assert server.total == 0


async def test_an_unexpected_call_fails_loudly() -> None:
    async def two_calls() -> None:
        async with ModelServer([Reply(text="only one")]) as server:
            assert (await post(server, HELLO))[0] == 200
            status, text = await post(server, HELLO)
            assert (status, "not expected" in text) == (400, True)

    with pytest.raises(AssertionError, match="call 1 was not expected"):
        await two_calls()


async def test_the_tests_own_error_is_not_hidden_by_an_unexpected_call() -> None:
    async def failing() -> None:
        async with ModelServer([]) as server:
            await post(server, HELLO)
            raise LookupError

    with pytest.raises(LookupError):
        await failing()


async def test_an_unused_reply_is_found() -> None:
    async with ModelServer([Reply(text="never asked for")]) as server:
        with pytest.raises(AssertionError, match=r"1 scripted replies were not asked for.*never asked for"):
            server.check()
        await post(server, HELLO)
        server.check()


async def test_a_script_that_fails_is_told() -> None:
    def script(body: dict[str, Any]) -> Reply:
        raise KeyError(body["model"])

    with pytest.raises(AssertionError, match="KeyError"):
        async with ModelServer(script) as server:
            assert (await post(server, HELLO))[0] == 400


async def test_an_async_script_sees_the_request() -> None:
    async def script(body: dict[str, Any]) -> Reply:
        await asyncio.sleep(0)
        return Reply(text=body["messages"][-1]["content"].upper())

    async with ModelServer(script) as server:
        assert json.loads((await post(server, HELLO))[1])["choices"][0]["message"]["content"] == "HELLO"


async def test_the_log_knows_calls_times_tags_and_ends() -> None:
    async def script(body: dict[str, Any]) -> Reply:
        return Reply(delay=60) if body["model"] == "slow" else Reply(drop_after=1, status=200)

    async with ModelServer(script, tag=lambda body: f"tag-{body['model']}") as server:
        with pytest.raises(aiohttp.ClientPayloadError):
            await post(server, {**HELLO, "stream": True})
        waiting = asyncio.create_task(post(server, {**HELLO, "model": "slow", "tools": [{"type": "function"}]}))
        await server.until(lambda s: s.open == 1)
        assert server.calls[1].ended is None
        waiting.cancel()
        await server.until(lambda s: s.open == 0)
        first, second = server.calls
        root = server.base_url.removesuffix("/v1")
        page = json.loads((await get(f"{root}/_log"))[1])
        newer = json.loads((await get(f"{root}/_log?since=1"))[1])
        assert (await get(f"{root}/_log?since=x"))[0] == 400
    assert (first.outcome, first.tag, first.number) == ("dropped", "tag-m", 0)
    assert (second.outcome, second.tag, second.tools) == ("gone", "tag-slow", [{"type": "function"}])
    assert second.ended is not None
    assert second.ended >= second.started >= first.started > 0
    assert (page["total"], page["open"], page["peak"]) == (2, 0, 1)
    assert [call["messages"] for call in page["calls"]] == [HELLO["messages"]] * 2
    assert [call["number"] for call in newer["calls"]] == [1]
    assert "headers" not in page["calls"][0]


async def test_the_log_is_bounded_and_can_be_off() -> None:
    async with ModelServer(lambda _: Reply(), keep=3, show_log=False) as server:
        for _ in range(5):
            await post(server, HELLO)
        assert [call.number for call in server.calls] == [2, 3, 4]
        assert server.total == 5
        assert (await get(f"{server.base_url.removesuffix('/v1')}/_log"))[0] == 404


async def test_waiting_for_the_log_has_a_limit() -> None:
    async with ModelServer([]) as server:
        with pytest.raises(TimeoutError):
            await server.until(lambda s: s.total == 1, timeout_s=0.05)


async def test_stopping_does_not_wait_for_open_calls() -> None:
    async with asyncio.timeout(10):
        async with ModelServer([Reply(delay=600)]) as server:
            waiting = asyncio.create_task(post(server, HELLO))
            await server.until(lambda s: s.open == 1)
    with pytest.raises(aiohttp.ClientError):
        await waiting


def test_a_server_in_a_thread_serves_callers_without_a_loop() -> None:
    def send(url: str) -> int:
        asked = urllib.request.Request(f"{url}/chat/completions", json.dumps(HELLO).encode())
        try:
            with urllib.request.urlopen(asked, timeout=10) as got:
                return int(got.status)
        except urllib.error.HTTPError as error:
            return int(error.code)

    with ModelServer.threaded([Reply(text="hi")]) as server:
        assert send(server.base_url) == 200
        server.wait(lambda s: s.total == 1 and s.open == 0)
        assert server.calls[0].outcome == "answered"
        server.check()
    with pytest.raises(AssertionError, match="not expected"), ModelServer.threaded([]) as server:
        assert send(server.base_url) == 400


def test_a_thread_does_not_hide_the_callers_error_and_a_taken_port_is_told() -> None:
    def failing() -> None:
        with ModelServer.threaded([]):
            raise LookupError

    with pytest.raises(LookupError):
        failing()
    assert "model-server" not in [thread.name for thread in threading.enumerate()]
    with ModelServer.threaded([]) as server:
        second = ModelServer.threaded([], port=server.port)
        with pytest.raises(OSError, match="in use"):
            second.__enter__()


def test_a_server_that_does_not_run_says_so() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        _ = ModelServer([]).base_url
    with pytest.raises(RuntimeError, match="not running"):
        ModelServer([]).wait(lambda _: True)
