"""What goes wrong at an endpoint, and the error of ours it becomes. The class decides; the text names the remedy."""

from __future__ import annotations

import asyncio
import gzip
import json
from datetime import timedelta

import pytest

from hermes_tasks.contracts.errors import (
    BadModelAnswer,
    ContextTooLong,
    ModelRefused,
    ModelUnavailable,
    RateLimited,
)
from hermes_tasks.demo.reply import ABSENT, Reply
from tests.integration.model_clients import KEY, ask_once, probe, settings

pytestmark = pytest.mark.anyio


def refused(message, code=None, kind="invalid_request_error"):
    return {"error": {"message": message, "type": kind, "code": code}}


@pytest.mark.parametrize("status", [500, 502, 503, 504, 529, 408, 409, 425])
async def test_a_server_in_trouble_is_unavailable(status) -> None:
    with pytest.raises(ModelUnavailable, match=f"HTTP {status}"):
        await ask_once([Reply(status=status)])


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "models.default.api_key"),
        (402, "no credit"),
        (403, "models.default.api_key"),
        (404, "models.default.base_url"),
        (400, "too many legs"),
        (422, "too many legs"),
    ],
)
async def test_a_refusal_names_place_model_and_remedy(status, remedy) -> None:
    with pytest.raises(ModelRefused) as caught:
        await ask_once([Reply(status=status, body=refused("too many legs"))])
    text = str(caught.value)
    assert caught.value.status == status
    assert remedy in text
    assert "gpt-test at 127.0.0.1:" in text
    assert "'default'" in text
    assert "\n" not in text


@pytest.mark.parametrize("status", [400, 401, 429, 500])
async def test_the_key_is_in_no_message(status) -> None:
    echo = f"Incorrect API key provided: {KEY}. Header was Bearer {KEY}; sk-other-987654321 is wrong too\nsee docs"
    for body in (refused(echo), {"error": echo}, {"detail": echo}, echo):
        with pytest.raises((ModelRefused, RateLimited, ModelUnavailable)) as caught:
            await ask_once([Reply(status=status, body=body)])
        shown = f"{caught.value!s} {caught.value!r} {caught.value.__cause__!r}"
        assert "0123456789" not in shown
        assert "987654321" not in shown
        assert "Incorrect API key" in shown


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("1e300", 86_400.0),
        ("Tue, 06 May 2031 07:08:39 GMT", 30.0),
        ("Tue, 06 May 2031 07:00:00 GMT", 0.0),
        (None, None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
    ],
)
async def test_rate_limit_with_retry_after(header, wait) -> None:
    with pytest.raises(RateLimited) as caught:
        await ask_once([Reply(status=429, retry_after=header)])
    assert caught.value.retry_after == (None if wait is None else timedelta(seconds=wait))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, refused("too long", "context_length_exceeded")),
        (400, refused("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens")),
        (400, refused("prompt is too long: 210000 tokens > 200000 maximum")),
        (
            400,
            refused(
                "the request exceeds the available context size. try increasing it", kind="exceed_context_size_error"
            ),
        ),
        (400, {"error": "input length and `max_tokens` exceed context limit: 199 + 32 > 200"}),
        (422, {"detail": "Input is too long for requested model"}),
        (500, {"error": {"message": "the request exceeds the available context size", "code": 500}}),
        (413, "<html>Request Entity Too Large</html>"),
    ],
)
async def test_a_conversation_beyond_the_window(status, body) -> None:
    with pytest.raises(ContextTooLong, match="gpt-test at 127"):
        await ask_once([Reply(status=status, body=body)])


async def test_long_provider_texts_are_cut() -> None:
    with pytest.raises(ModelRefused) as caught:
        await ask_once([Reply(status=400, body=refused("word " * 10_000))])
    assert len(str(caught.value)) < 700


async def test_an_error_inside_the_stream() -> None:
    cases = [
        ({"message": "slow down", "code": "rate_limit_exceeded"}, RateLimited),
        ({"message": "slow down", "code": 429}, RateLimited),
        ({"message": "too long", "code": "context_length_exceeded"}, ContextTooLong),
        ({"message": "who are you", "code": "invalid_api_key"}, ModelRefused),
        ({"message": "bad field", "type": "invalid_request_error"}, ModelRefused),
        ({"message": "overloaded", "type": "overloaded_error"}, ModelUnavailable),
        ({"message": "bad gateway", "code": 502}, ModelUnavailable),
        ("something broke", ModelUnavailable),
        ({}, ModelUnavailable),
    ]
    for error, kind in cases:
        for position in (0, 2):
            with pytest.raises(kind):
                await ask_once([Reply(text="some words before it breaks", insert=[(position, {"error": error})])])
        with pytest.raises(kind):
            await ask_once([Reply(body={"error": error})])
    asked = await ask_once([Reply(text="all well", insert=[(1, {"choices": [], "error": None})])])
    assert asked.step.text == "all well"


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_a_connection_that_breaks_is_unavailable(after) -> None:
    with pytest.raises(ModelUnavailable, match="broke its answer off"):
        await ask_once([Reply(text="these words will not all arrive", finish=ABSENT, drop_after=after)])


async def test_a_connection_that_breaks_after_the_finish_reason_costs_nothing() -> None:
    text = "three words only"
    asked = await ask_once([Reply(text=text, drop_after=3)])
    assert (asked.step.text, asked.step.finish) == (text, "stop")


async def test_nobody_listens() -> None:
    async with probe(default=settings("http://127.0.0.1:9/v1")) as asking:
        with pytest.raises(ModelUnavailable, match="cannot be reached"):
            await asking.ask()


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<html><body>Welcome</body></html>", "text/html"),
        ("<html><body>Welcome</body></html>", "application/json"),
        ("", "text/event-stream"),
        ("", "application/json"),
        ("just words", "text/plain"),
        ("data: [DONE]\n\n", "text/event-stream"),
        ("data: {}\n\ndata: [DONE]\n\n", "text/event-stream"),
        ('{"object": "list", "data": []}', "application/json"),
        ("[1, 2]", "application/json"),
        ("[" * 100_000, "application/json"),
        ("data: " + "[" * 100_000 + "\n\n", "text/event-stream"),
        (bytes(range(256)) * 50, "application/octet-stream"),
    ],
)
async def test_what_is_no_chat_completion(body, content_type) -> None:
    with pytest.raises(BadModelAnswer, match=r"models\.default\.base_url") as caught:
        await ask_once([Reply(body=body, content_type=content_type)])
    assert len(str(caught.value)) < 700


async def test_a_redirect_is_not_followed() -> None:
    async def moved(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 307 Moved\r\nLocation: http://elsewhere.test/v1\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    with pytest.raises(ModelRefused, match=r"redirects .*elsewhere\.test.*base_url"):
        await _against(moved)


async def test_a_port_that_does_not_speak_http() -> None:
    async def other(reader, writer):
        await reader.read(10)
        writer.write(b"-ERR unknown command\r\n" * 3)
        await writer.drain()
        writer.close()

    with pytest.raises(BadModelAnswer, match="does not speak HTTP"):
        await _against(other)


async def test_a_server_that_hangs_up_at_once() -> None:
    async def hang_up(reader, writer):
        await reader.read(10)
        writer.close()

    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        await _against(hang_up)


async def test_a_body_that_does_not_unpack() -> None:
    packed = gzip.compress(b"data: {}\n\n" * 100)[:-20] + b"x" * 20

    async def broken(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
        writer.write(head.encode() + packed)
        await writer.drain()
        writer.close()

    with pytest.raises((ModelUnavailable, BadModelAnswer)):
        await _against(broken)


async def test_an_answer_without_end_is_given_up_at_a_bound() -> None:
    piece = json.dumps({"choices": [{"delta": {"content": "word " * 20_000}}]})

    async def endless(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        try:
            while True:
                writer.write(f"data: {piece}\n\n".encode())
                await writer.drain()
        except ConnectionError:
            writer.close()

    with pytest.raises(BadModelAnswer, match="more than"):
        await _against(endless)


async def test_an_unknown_model_and_an_unreadable_key_file(tmp_path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("sk-first\n")
    async with probe(default=settings("http://127.0.0.1:9/v1", api_key=None, api_key_file=key_file)) as asking:
        with pytest.raises(ModelRefused, match=r"'nobody'.*default"):
            await asking.ask("nobody")
        with pytest.raises(ModelRefused, match="'nobody'"):
            asking.client.context_tokens("nobody")
        assert asking.client.context_tokens("default") == 128_000
        key_file.unlink()
        with pytest.raises(ModelRefused, match=str(key_file)) as caught:
            await asking.ask()
        assert caught.value.status == 401


async def _against(handler):
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, probe(default=settings(f"http://127.0.0.1:{port}/v1")) as asking:
        await asking.ask()
