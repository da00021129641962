"""A web site on this machine and a list of names, for the tests of the web tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from hermes_tasks.contracts.tools import ToolOutput
from hermes_tasks.tools.guard import Lookup
from hermes_tasks.tools.web import WebFetch
from tests.integration.tool_calls import call

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Site:
    """A web server on this machine: path to answer. Remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.port = 0

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def text(
        self,
        path: str,
        text: str | bytes,
        content_type: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        body = text.encode() if isinstance(text, str) else text
        sent = {"Content-Type": content_type, **(headers or {})}

        async def answer(_: web.Request) -> web.Response:
            return web.Response(body=body, headers=sent, status=status)

        self.answers[path] = answer
        return self.url(path)

    def redirect(self, path: str, to: str) -> str:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(status=302, headers={"Location": to})

        self.answers[path] = answer
        return self.url(path)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        answer = self.answers.get(request.path)
        return await answer(request) if answer else web.Response(status=404, text="nothing here")


@asynccontextmanager
async def serving(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Site]:
    site = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", site.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listening = web.TCPSite(runner, host, port)
    await listening.start()
    site.port = runner.addresses[0][1]
    try:
        yield site
    finally:
        await runner.cleanup()


class Names:
    """A name server: each name answers its lists of addresses one after the other, then the last for ever."""

    def __init__(self, **addresses: list[list[str]]) -> None:
        self._addresses = {name.replace("_", "."): answers for name, answers in addresses.items()}
        self.looked_up: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.looked_up.append(host)
        answers = self._addresses.get(host)
        if answers is None:
            raise OSError(f"no address for {host}")
        return answers.pop(0) if len(answers) > 1 else answers[0]


async def fetch(url: str, *, names: Lookup | None = None, allow_private: bool = True, **limits: float) -> ToolOutput:
    limits = {"max_bytes": 2_000_000, "timeout_s": 30, **limits}
    tool = WebFetch(
        max_bytes=int(limits["max_bytes"]), timeout_s=limits["timeout_s"], allow_private=allow_private, lookup=names
    )
    return await call(tool, Path("/nowhere"), {"url": url})
