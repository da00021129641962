from __future__ import annotations

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from hermes_tasks.contracts.tools import ToolOutput
from hermes_tasks.tools import pagereader
from hermes_tasks.tools.aside import answer_of
from tests.integration.web_site import Names, Site, fetch, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as site:
        yield site


async def test_a_big_body_is_cut_and_says_so(site: Site) -> None:
    output = await fetch(site.text("/big", "x" * 100_000, "text/plain"), max_bytes=1000)
    assert "only its first 1000 bytes were read" in output.content
    assert len(output.content) < 1_500


async def test_long_text_is_bounded_and_says_so(site: Site) -> None:
    output = await fetch(site.text("/long", "x" * 120_000, "text/plain"))
    assert "these are the first 50000 of 120000 characters" in output.content
    assert len(output.content) < 51_000


def members(data: bytes) -> bytes:
    """The same in many small pieces, one gzip file after the other."""
    return gzip.compress(data[:10_000]) * 1_000


@pytest.mark.parametrize(("packing", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("gzip", members)])
async def test_a_packed_bomb_is_not_unpacked(site: Site, packing: str, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(b"x" * 50_000_000)
    url = site.text("/bomb", bomb, "text/plain", headers={"Content-Encoding": packing})
    output = await fetch(url, max_bytes=10_000)
    assert "only its first 10000 bytes were read" in output.content


@pytest.mark.parametrize("packing", ["br", "zstd", "gzip, gzip", "compress"])
async def test_a_packing_that_was_not_asked_for_is_refused_by_name(site: Site, packing: str) -> None:
    output = await fetch(site.text("/x", gzip.compress(b"x"), "text/plain", headers={"Content-Encoding": packing}))
    assert output.error
    assert packing in output.content


async def test_what_is_not_packed_as_it_says_is_an_error(site: Site) -> None:
    output = await fetch(site.text("/x", "plain", "text/plain", headers={"Content-Encoding": "gzip"}))
    assert output.error
    assert output.content.startswith("not fetched: ")


async def test_an_endless_body_ends(site: Site) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        try:
            while True:
                await response.write(b"more " * 10_000)
        except ConnectionError:
            return response

    site.answers["/endless"] = answer
    assert "only its first 2000000 bytes" in (await fetch(site.url("/endless"))).content


async def test_a_server_that_drips_is_given_up(site: Site) -> None:
    stop = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(b"one")
        await stop.wait()
        return response

    site.answers["/drip"] = answer
    output = await fetch(site.url("/drip"), timeout_s=1)
    stop.set()
    assert output == ToolOutput(f"{site.url('/drip')} was not read within 1 s", error=True)


async def test_a_server_that_is_not_there_is_said(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    output = await fetch(f"http://127.0.0.1:{port}/")
    assert output.error
    assert "Connect call failed" in output.content
    assert (await fetch("http://unknown.example/", names=Names())).error


@asynccontextmanager
async def raw(answer: bytes, then: bytes = b"") -> AsyncIterator[str]:
    """The address of a server that sends these bytes whatever it is asked, and then others for ever."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        with suppress(ConnectionError):
            while then:
                writer.write(then)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        (OK + b"X-Long: " + b"x" * 1_000_000 + b"\r\n\r\nhello", b""),
        (OK + b"X-Many: 1\r\n" * 10_000 + b"\r\nhello", b""),
        (b"HTTP/1.1 200 " + b"x" * 1_000_000 + b"\r\n\r\n", b""),
        (OK, b"X-Endless: 1\r\n" * 100),
        (OK + b"X-Endless: ", b"x" * 1_000),
        (b"no http at all\r\n\r\n", b""),
        (b"", b""),
        (OK + b"Content-Length: 10\r\n\r\nhello", b""),
        (OK + b"Content-Length: ten\r\n\r\nhello", b""),
    ],
)
async def test_a_server_that_breaks_the_protocol_is_told_in_one_short_line(answer: bytes, then: bytes) -> None:
    async with raw(answer, then) as url:
        output = await fetch(url)
    assert output.error
    assert output.content.startswith("not fetched: ")
    assert len(output.content) < 400
    assert "\n" not in output.content


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 1_000),
    ],
)
async def test_a_server_that_sends_for_ever_without_saying_anything_is_given_up(answer: bytes, then: bytes) -> None:
    async with raw(answer, then) as url:
        output = await fetch(url, timeout_s=2)
    assert output == ToolOutput(f"{url} was not read within 2 s", error=True)


async def test_a_page_made_to_take_minutes_is_given_up_and_blocks_nobody(site: Site) -> None:
    url = site.text("/bomb", "<html><body><p>" + "<b>x</b>" * 240_000, "text/html")
    slow = asyncio.create_task(fetch(url, timeout_s=4))
    beats = 0
    while not slow.done():
        await asyncio.wait({slow}, timeout=0.05)
        beats += 1
    assert await slow == ToolOutput(f"{url} was not read within 4 s", error=True)
    assert beats > 40


async def test_a_page_whose_reader_dies_is_an_error(site: Site) -> None:
    """The kernel ends the reader at its own limit when ours does not come first."""
    found = await answer_of(Path(pagereader.__file__), {"seconds": 1}, 20, packages=True)  # dies: fields are missing
    assert found is None
