"""A chat-completions server on 127.0.0.1 that answers from a script: plain, streamed, or wrong in a chosen way.

The demo model and the test double are this class with different scripts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web

from hermes_tasks.contracts.clock import Clock, SystemClock
from hermes_tasks.demo.log import CallLog, LoggedCall
from hermes_tasks.demo.reply import Reply
from hermes_tasks.demo.sending import fixed, refusal, stream

Request = dict[str, Any]
Script = Callable[[Request], Reply | Awaitable[Reply]]
Tag = Callable[[Request], str]

HOST: Final = "127.0.0.1"
#: How many failures are kept for the end.
MAX_FAILURES: Final = 20
#: A whole conversation travels with every call.
MAX_BODY_BYTES: Final = 64 * 1024 * 1024


class ModelServer:
    """Serves ``/v1/chat/completions`` and ``/v1/models`` while it is entered.

    Args:
        script: a (possibly async) callable from the request to the reply, or a list of replies given in order.
            A call that the list has no reply for, and a script that raises, is answered with HTTP 400 and makes
            the ``async with`` raise ``AssertionError`` at its end.
        port: 0 = a free one, see :attr:`base_url`.
        keep: calls kept in the log.
        show_log: whether ``GET /_log`` answers (``?since=N`` leaves out the calls before number N).
        tag: names a call in the log from its request.
    """

    def __init__(
        self,
        script: Script | Sequence[Reply],
        *,
        port: int = 0,
        keep: int = 1000,
        show_log: bool = True,
        tag: Tag | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._script = script if callable(script) else None
        self._replies = [] if callable(script) else list(script)
        self._port = port
        self._show_log = show_log
        self._tag = tag
        self._clock = clock or SystemClock()
        self._log = CallLog(keep)
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.failures: list[str] = []

    @property
    def base_url(self) -> str:
        """What a client is configured with, ``/v1`` included."""
        return f"http://{HOST}:{self.port}/v1"

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._runner is None:
            raise RuntimeError("the server is not running: enter it with `async with` or ModelServer.threaded")
        return int(self._runner.addresses[0][1])

    @property
    def calls(self) -> tuple[LoggedCall, ...]:
        """The newest calls, oldest first."""
        return self._log.calls

    @property
    def total(self) -> int:
        """How many calls came, those no longer kept included."""
        return self._log.total

    @property
    def open(self) -> int:
        """How many calls are being answered now."""
        return self._log.open

    @property
    def peak(self) -> int:
        """The most calls that were open at once."""
        return self._log.peak

    def check(self) -> None:
        """Assert that every call went as scripted and that no scripted reply was left unused."""
        if self.failures:
            raise AssertionError("; ".join(self.failures))
        if self._replies:
            raise AssertionError(f"{len(self._replies)} scripted replies were not asked for: {self._replies[:3]}")

    def wait(self, reached: Callable[[Self], bool], timeout_s: float = 10.0) -> None:
        """:meth:`until` for the user of :meth:`threaded`: blocks the calling thread."""
        if self._loop is None:
            raise RuntimeError("the server is not running: enter it with ModelServer.threaded")
        asyncio.run_coroutine_threadsafe(self.until(reached, timeout_s), self._loop).result()

    async def until(self, reached: Callable[[Self], bool], timeout_s: float = 10.0) -> None:
        """Return when ``reached(self)`` holds; it is looked at whenever a call begins or ends.

        Raises:
            TimeoutError: it did not within ``timeout_s`` seconds.
        """
        async with asyncio.timeout(timeout_s):
            while not reached(self):
                await self._changed.wait()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._completions)
        app.router.add_get("/v1/models", self._models)
        if self._show_log:
            app.router.add_get("/_log", self._log_page)
        # Cancelling handlers is how a call learns that its client went away; waiting for them would hold up the end.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self._port, backlog=1024).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = self._loop = None
        if error is None and self.failures:
            raise AssertionError("; ".join(self.failures))

    @classmethod
    @contextmanager
    def threaded(cls, script: Script | Sequence[Reply], **options: Any) -> Iterator[Self]:
        """Run a server in a thread of its own, for callers without an event loop. Takes what the class takes."""
        server = cls(script, **options)
        stop = asyncio.Event()
        started: Future[asyncio.AbstractEventLoop] = Future()
        ended: Future[None] = Future()

        async def serve() -> None:
            async with server:
                started.set_result(asyncio.get_running_loop())
                await stop.wait()

        def work() -> None:
            try:
                asyncio.run(serve())
            except BaseException as error:  # noqa: BLE001 - carried over to the thread that waits
                (ended if started.done() else started).set_exception(error)
            else:
                ended.set_result(None)

        threading.Thread(target=work, name="model-server", daemon=True).start()
        loop = started.result()
        try:
            yield server
        except BaseException:
            loop.call_soon_threadsafe(stop.set)
            ended.exception()  # the caller's own error is the one to show
            raise
        loop.call_soon_threadsafe(stop.set)
        ended.result()

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
        except ValueError:
            return refusal("the body is not JSON")
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            return refusal("messages must be a list", "messages")
        call = self._log.begin(body, dict(request.headers), self._tag(body) if self._tag else "")
        self._notify()
        outcome = "gone"
        try:
            response, outcome = await self._answer(request, body, call)
            return response
        except ConnectionError:
            # The client went away between two chunks; there is nobody left to answer.
            return web.Response()
        finally:
            self._log.end(call, outcome)
            self._notify()

    async def _answer(self, request: web.Request, body: Request, call: LoggedCall) -> tuple[web.StreamResponse, str]:
        reply = await self._next(body, call)
        if isinstance(reply, str):
            self.failures = [*self.failures, reply][-MAX_FAILURES:]
            return refusal(reply), "failed"
        await asyncio.sleep(reply.delay)
        if reply.status != 200 or reply.body is not None:
            return fixed(reply), "answered" if reply.status == 200 else "refused"
        head = {
            "id": f"chatcmpl-{call.number}",
            "object": "chat.completion.chunk",
            "created": int(self._clock.now().timestamp()),
            "model": call.model,
        }
        if not body.get("stream"):
            return web.json_response(reply.completion(head)), "answered"
        options = body.get("stream_options")
        with_usage = isinstance(options, dict) and bool(options.get("include_usage"))
        return await stream(request, reply, reply.stream(head, with_usage=with_usage))

    async def _next(self, body: Request, call: LoggedCall) -> Reply | str:
        """The reply, or why there is none."""
        if self._script is None:
            if self._replies:
                return self._replies.pop(0)
            return f"call {call.number} was not expected, the script has no reply left"
        try:
            reply = self._script(body)
            return reply if isinstance(reply, Reply) else await reply
        except Exception as error:  # noqa: BLE001 - the script is the test's own; its fault is shown at the end
            return f"the script failed at call {call.number}: {error!r}"

    async def _models(self, _request: web.Request) -> web.Response:
        model = {"id": "demo", "object": "model", "created": 0, "owned_by": "hermes-tasks"}
        return web.json_response({"object": "list", "data": [model]})

    async def _log_page(self, request: web.Request) -> web.Response:
        since = request.query.get("since", "0")
        if not since.isdecimal():
            return refusal("since must be a number", "since")
        calls = [call.as_json() for call in self.calls if call.number >= int(since)]
        return web.json_response({"total": self.total, "open": self.open, "peak": self.peak, "calls": calls})

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
