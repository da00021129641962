"""What leaves the client, and how its connections end: requests, environment, time limits, many calls at once."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from hermes_tasks.agent.model import ModelClient
from hermes_tasks.contracts.errors import BadModelAnswer, ModelRefused, ModelUnavailable
from hermes_tasks.demo.reply import AUTO, Call, Reply
from hermes_tasks.demo.server import ModelServer
from tests.integration.model_clients import KEY, FixedClock, probe, request, settings

pytestmark = pytest.mark.anyio

SCHEMA = {"name": "echo", "description": "Say it again.", "parameters": {"type": "object", "properties": {}}}


async def test_the_request_is_what_was_asked_for() -> None:
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Grüße \ud83d halved"}]
    async with ModelServer([Reply(), Reply()]) as server:
        models = settings(server.base_url, max_output_tokens=900)
        async with probe(default=models) as asking:
            await asking.ask(messages=messages, tools=[SCHEMA])
            await asking.ask(max_output_tokens=50)
        first, second = server.calls
    assert first.request == {
        "model": "gpt-test",
        "messages": [messages[0], {"role": "user", "content": "Grüße ? halved"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": SCHEMA}],
        "max_tokens": 900,
    }
    assert second.request["max_tokens"] == 50
    assert "tools" not in second.request
    assert first.headers["Authorization"] == f"Bearer {KEY}"


async def test_the_environment_moves_neither_call_nor_key(monkeypatch) -> None:
    dead = "http://127.0.0.1:9"
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, dead)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-environment")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-environment")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-environment")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-environment")
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", "Authorization: Bearer stolen\nX-Extra: environment\nCookie: a=environment"
    )
    async with ModelServer([Reply(text="ok"), Reply(text="ok")]) as server:
        with_key, without = settings(server.base_url), settings(server.base_url, api_key=None)
        async with probe(default=with_key, local=without) as asking:
            await asking.ask()
            await asking.ask("local")
        first, second = server.calls
    assert first.headers["Authorization"] == f"Bearer {KEY}"
    assert "Authorization" not in second.headers
    for call in (first, second):
        assert "environment" not in str(call.headers)
        assert "stolen" not in str(call.headers)


async def test_a_key_file_is_read_at_each_call(tmp_path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("sk-first\n")
    async with ModelServer([Reply(), Reply()]) as server:
        models = settings(server.base_url, api_key=None, api_key_file=key_file)
        async with probe(default=models) as asking:
            await asking.ask()
            key_file.write_text("sk-second\n")
            await asking.ask()
        assert [call.headers["Authorization"] for call in server.calls] == ["Bearer sk-first", "Bearer sk-second"]


async def test_an_endpoint_that_knows_fewer_fields_is_asked_without_them() -> None:
    def choosy(body: dict[str, Any]) -> Reply:
        if "stream_options" in body:
            return Reply(status=422, body={"detail": [{"loc": ["body", "stream_options"], "type": "extra_forbidden"}]})
        if "max_tokens" in body:
            hint = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            return Reply(status=400, body={"error": {"message": hint, "code": "unsupported_parameter"}})
        return Reply(text=str(body["max_completion_tokens"]))

    async with ModelServer(choosy) as server:
        async with probe(default=settings(server.base_url, max_output_tokens=77)) as asking:
            assert (await asking.ask()).text == "77"
            assert (await asking.ask()).text == "77"
        assert server.total == 4  # two to learn it, then it is known


async def test_a_field_that_is_refused_for_good_is_refused_once() -> None:
    always = Reply(status=400, body={"error": {"message": "stream_options and max_completion_tokens are odd"}})
    async with ModelServer([always] * 3) as server, probe(default=settings(server.base_url)) as asking:
        with pytest.raises(ModelRefused, match="odd"):
            await asking.ask(max_output_tokens=5)
        server.check()


@pytest.mark.parametrize(
    "reply", [Reply(delay=60), Reply(text="one two three four five", chunk_delay=30)], ids=["silent", "inside the text"]
)
async def test_the_time_limit_closes_the_connection(reply) -> None:
    async with ModelServer([reply]) as server, probe(default=settings(server.base_url)) as asking:
        with pytest.raises(ModelUnavailable, match=r"within 0\.\d s"):
            await asking.ask(timeout_s=0.5)
        await server.until(lambda s: s.calls[0].outcome == "gone")


async def test_cancelling_the_caller_closes_the_connection() -> None:
    async with ModelServer([Reply(delay=60)]) as server, probe(default=settings(server.base_url)) as asking:
        task = asyncio.create_task(asking.ask())
        await server.until(lambda s: s.open == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until(lambda s: s.calls[0].outcome == "gone")


async def test_a_watcher_that_fails_ends_the_call_with_its_own_error() -> None:
    for error in (LookupError("lease lost"), TimeoutError("mine"), ConnectionResetError("mine")):

        async def fail(text: str, error: Exception = error) -> None:
            raise error

        reply = Reply(text="many words to read " * 9, chunk_delay=0.1)
        async with ModelServer([reply]) as server, probe(default=settings(server.base_url)) as asking:
            with pytest.raises(type(error), match=str(error)):
                await asking.client.ask(request(), fail)
            await server.until(lambda s: s.calls[0].outcome == "gone")


@pytest.mark.parametrize(
    ("end", "timeout_s"),
    [
        pytest.param(b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n', 60.0, id="finish reason"),
        pytest.param(b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n', 0.7, id="and little time"),
        pytest.param(b"data: [DONE]\n\n", 60.0, id="done"),
    ],
)
async def test_a_complete_answer_does_not_wait_for_a_server_that_keeps_the_stream_open(end, timeout_s) -> None:
    held = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writer.write(b'data: {"choices": [{"delta": {"content": "whole"}}]}\n\n' + end)
        await writer.drain()
        await held.wait()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server, probe(default=settings(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")) as asking:
        async with asyncio.timeout(20):
            assert (await asking.ask(timeout_s=timeout_s)).text == "whole"
        held.set()


async def test_calls_one_after_the_other_use_one_connection() -> None:
    ports = set()

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ports.add(writer.get_extra_info("peername")[1])
        while True:
            head = await reader.read(65_536)
            if not head:
                break
            body = b'data: {"choices": [{"delta": {"content": "hi"}}]}\n\ndata: [DONE]\n\n'
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n%s\r\n" % (len(body), body))
            await writer.drain()
            await asyncio.sleep(0.02)  # the end of the body comes a moment after what it says
            writer.write(b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(count, "127.0.0.1", 0)
    async with server, probe(default=settings(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")) as asking:
        for _ in range(5):
            await asking.ask()
    assert len(ports) == 1


async def test_an_answer_that_is_given_up_gives_its_connection_back() -> None:
    bad = [
        Reply(body="<p>" * 3_000_000, content_type="text/html"),
        Reply(body="x" * 100_000, content_type="text/plain"),
        Reply(body="[" + " " * 100_000 + "]"),
        Reply(status=500, body="x" * 100_000),
        Reply(text="one two three four", malformed_at=2, chunk_delay=0.01),
        Reply(text="one two three four", insert=[(2, {"error": "broken"})], chunk_delay=0.01),
    ]
    async with ModelServer([*bad, Reply(text="through")]) as server:
        client = ModelClient({"default": settings(server.base_url)}, clock=FixedClock(), connections=1)
        errors = []  # kept whole, so that no garbage collection closes what was left open
        for _ in bad:
            try:
                await client.ask(request(timeout_s=5.0))
            except (BadModelAnswer, ModelUnavailable) as error:
                errors.append(error)
        assert len(errors) == len(bad)
        assert not [error for error in errors if "within" in str(error)]
        assert (await client.ask(request(timeout_s=5.0))).text == "through"
        await client.aclose()


async def test_closing_twice_is_harmless() -> None:
    async with ModelServer([Reply()]) as server, probe(default=settings(server.base_url)) as asking:
        await asking.ask()
        await asking.client.aclose()


async def test_three_hundred_calls_at_once() -> None:
    count = 300
    together = asyncio.Event()

    async def script(body: dict[str, Any]) -> Reply:
        if server.open == count:
            together.set()
        await together.wait()  # none is answered before all are there
        number = body["messages"][-1]["content"]
        return Reply(
            text=f"answer {number} " * 20, calls=[Call("echo", f'{{"n": {number}}}', id=AUTO)], chunk_delay=0.001
        )

    async with ModelServer(script, keep=10) as server, probe(default=settings(server.base_url)) as asking:
        await _ask_together(asking, server, together, count, count)
        gc.collect()
        tracemalloc.start()
        together.clear()
        await _ask_together(asking, server, together, count, 2 * count)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert server.peak == count
    assert peak < count * 1024 * 1024 / 2  # both ends of each call together


async def _ask_together(asking, server: ModelServer, together: asyncio.Event, count: int, total: int) -> None:
    async def one(number: int) -> None:
        step = await asking.client.ask(request(messages=[{"role": "user", "content": str(number)}], timeout_s=90.0))
        assert step.text == f"answer {number} " * 20
        assert step.calls[0].arguments == f'{{"n": {number}}}'

    async with asyncio.timeout(90):
        await asyncio.gather(*(one(number) for number in range(count)))
    assert server.total == total
    assert len(server.calls) == 10
