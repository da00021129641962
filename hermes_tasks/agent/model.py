"""The model client: one answer from a configured endpoint, or from its fallback. The only place that knows the SDK."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

import aiohttp
import httpx2
import structlog
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, AsyncStream, DefaultAioHttpClient, Omit

from hermes_tasks.agent.model_answer import Answer
from hermes_tasks.agent.model_errors import Place, from_event, from_status
from hermes_tasks.agent.model_request import Dialect, encoded, refused_part
from hermes_tasks.agent.model_stream import BROKEN, events
from hermes_tasks.contracts.clock import Clock
from hermes_tasks.contracts.errors import (
    BadModelAnswer,
    ContextTooLong,
    HermesTasksError,
    InvalidRequest,
    ModelRefused,
    ModelUnavailable,
    RateLimited,
    Retryable,
)
from hermes_tasks.contracts.models import ModelRequest, OnText
from hermes_tasks.contracts.steps import ModelStep
from hermes_tasks.settings import ModelSettings

#: Open connections per endpoint: more than the runs of one process, so that none waits for another's.
CONNECTIONS: Final = 512
CONNECT_S: Final = 10.0
KEEP_ALIVE_S: Final = 15.0
#: How long an answer that is complete may keep us waiting for its usage and its end.
AFTER_FINISH_S: Final = 5.0
#: Statuses with which a provider refuses the key rather than the request.
_REFUSED_KEY: Final = frozenset({401, 402, 403})
_HEADERS: Final = frozenset(
    {"host", "accept", "accept-encoding", "connection", "content-type", "content-length", "user-agent", "authorization"}
)
_FAILURES: Final = (ModelUnavailable, RateLimited, ModelRefused, ContextTooLong, BadModelAnswer)

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Call:
    """One request to one endpoint. Moments are those of the event loop's clock."""

    place: Place
    settings: ModelSettings
    request: ModelRequest
    on_text: OnText | None
    deadline: float
    silent_until: float
    spoke: bool = False


class ModelClient:
    """Implements ``ModelPort`` over OpenAI-compatible endpoints, always streaming.

    One HTTP client per endpoint, made here, bound to the event loop of the first call and closed in it by
    :meth:`aclose`. Nothing is retried here: the caller decides. Nothing is read from the environment: neither proxies
    nor the SDK's own variables can move a call or its key elsewhere, and redirects are not followed.

    Args:
        models: the configured models by name.
        clock: for ``Retry-After`` dates.
        connections: the most open connections per endpoint; calls beyond it wait within their own limit.
    """

    def __init__(self, models: Mapping[str, ModelSettings], *, clock: Clock, connections: int = CONNECTIONS) -> None:
        self._models = dict(models)
        self._clock = clock
        urls = {settings.base_url for settings in self._models.values()}
        # Loading the system's certificates takes a third of a second: once, and only when there is TLS to do.
        tls = httpx2.create_ssl_context(trust_env=False) if any(url.startswith("https:") for url in urls) else None
        self._clients = {url: _sdk_client(url, connections, tls) for url in urls}
        self._dialects: dict[str, Dialect] = {}

    async def aclose(self) -> None:
        """Close all connections. Harmless when called twice."""
        for client in self._clients.values():
            await client.close()

    def context_tokens(self, model: str) -> int:
        """See ``ModelPort``."""
        return self._settings(model).context_tokens

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> ModelStep:
        """See ``ModelPort``. ``model`` of the step is the configured name of the model that answered.

        When the endpoint is unavailable, limits us or refuses the key before any text has come, the model's
        ``fallback`` is asked within the same time limit; with a fallback, an endpoint that stays silent for half of the
        time left is given up. When all fail, the error that a later call may cure is raised, the first of its kind.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.timeout_s
        failures: list[HermesTasksError] = []
        tried: list[str] = []
        name: str | None = request.model
        while name is not None:
            settings = self._settings(name)
            tried.append(name)
            follower = settings.fallback if settings.fallback not in tried else None
            patience = (deadline - loop.time()) / 2 if follower else request.timeout_s
            silent_until = min(deadline, loop.time() + patience)
            call = _Call(
                Place(name, settings.model, _host(settings)), settings, request, on_text, deadline, silent_until
            )
            try:
                return await self._answered(call)
            except _FAILURES as error:
                failures.append(error)
                if call.spoke or loop.time() >= deadline or not _another_may_help(error):
                    break
                if follower:
                    _log.warning("model fallback", model=name, fallback=follower, reason=str(error))
                    if request.before_fallback is not None:
                        await request.before_fallback(name, error, follower)
                name = follower
        raise next((error for error in failures if isinstance(error, Retryable)), failures[0])

    async def _answered(self, call: _Call) -> ModelStep:
        if part := refused_part(call.request.messages, vision=call.settings.vision):
            raise ModelRefused(f"{call.place} does not take {part} parts; send text, or use a model that does")
        began = asyncio.get_running_loop().time()
        answer = Answer()
        try:
            async with asyncio.timeout_at(call.silent_until) as limit:
                await self._read(call, answer, limit)
        except TimeoutError:
            if not limit.expired():
                raise
            if not answer.finish:
                waited = asyncio.get_running_loop().time() - began
                raise call.place.unavailable(f"was not done within {waited:.1f} s") from None
        if answer.finish == "error":
            raise call.place.unavailable("broke its answer off with the finish reason 'error'")
        if answer.finish == "content_filter" and answer.empty:
            raise ModelRefused(f"{call.place}: its content filter blocked the answer; say it in other words")
        return priced(answer.step(call.place.name), call.settings)

    async def _read(self, call: _Call, answer: Answer, limit: asyncio.Timeout) -> None:
        """Read the whole answer. The connection is free again, or closed, when this returns or raises."""
        response = await self._open(call)
        try:
            async with aclosing(events(call.place, response, answer)) as chunks:
                async for chunk in chunks:
                    if chunk.get("error") is not None and not answer.finish:
                        raise from_event(call.place, chunk["error"], self._clock.now())
                    text = answer.take(chunk)
                    grace = asyncio.get_running_loop().time() + AFTER_FINISH_S
                    limit.reschedule(min(call.deadline, grace) if answer.finish else call.deadline)
                    if text:
                        call.spoke = True
                        if call.on_text is not None:
                            await call.on_text(text)
        finally:
            await response.aclose()

    async def _open(self, call: _Call) -> httpx2.Response:
        """Send the request; an endpoint that refuses one of our optional fields is asked again without it, once."""
        key = await _key(call)
        name = call.place.name
        dialect = self._dialects.get(name, Dialect())
        while True:
            try:
                return await self._post(call, key, encoded(call.request, call.settings, dialect))
            except APIStatusError as error:
                response = error.response
                plainer = dialect.after(response.status_code, response.text)
                if plainer is None:
                    raise from_status(
                        call.place, response.status_code, response.headers, response.text, self._clock.now()
                    ) from None
                self._dialects[name] = dialect = plainer

    async def _post(self, call: _Call, key: str | None, body: bytes) -> httpx2.Response:
        client = self._clients[call.settings.base_url]
        try:
            # Asked for the bare response, the SDK does everything up to it and leaves its body to us.
            response = await client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                content=body,
                options={"headers": {"Authorization": f"Bearer {key}" if key else Omit()}},
                stream=True,
                stream_cls=AsyncStream[Any],
            )
        except aiohttp.ClientResponseError as error:
            raise call.place.no_completion(f"it does not speak HTTP ({error.message})") from error
        except (APIConnectionError, *BROKEN) as error:
            cause = error.__cause__ or error
            raise call.place.unavailable(
                f"cannot be reached ({call.place.clean(str(cause) or type(cause).__name__)})"
            ) from error
        return cast("httpx2.Response", response)

    def _settings(self, model: str) -> ModelSettings:
        if model in self._models:
            return self._models[model]
        known = ", ".join(sorted(self._models)) or "none"
        raise ModelRefused(f"no model {model!r} is configured under models; configured: {known}")


def _sdk_client(base_url: str, connections: int, tls: ssl.SSLContext | None) -> AsyncOpenAI:
    timeout = httpx2.Timeout(None, connect=CONNECT_S)  # the whole call has a limit of its own
    http = DefaultAioHttpClient(
        verify=tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # without one: plain HTTP, and an empty trust store
        timeout=timeout,
        limits=httpx2.Limits(max_connections=connections, keepalive_expiry=KEEP_ALIVE_S),
        trust_env=False,
        follow_redirects=False,
        event_hooks={"request": [_only_ours]},
    )
    # The key goes along with each call, so that it can be rotated; the SDK wants one here all the same.
    return AsyncOpenAI(base_url=base_url, api_key="per-call", timeout=timeout, max_retries=0, http_client=http)


async def _only_ours(request: httpx2.Request) -> None:
    """Drop every header that we did not choose: those the SDK reads from the environment, and other calls' cookies."""
    for name in list(request.headers):
        if name.lower() not in _HEADERS:
            del request.headers[name]


async def _key(call: _Call) -> str | None:
    """The key of the call's model, also noted where messages are cleaned of it."""
    settings = call.settings
    try:
        key = settings.key() if settings.api_key_file is None else await asyncio.to_thread(settings.key)
    except InvalidRequest as error:
        raise ModelRefused(f"{call.place}: {error}", status=401) from error
    call.place.key = key or ""
    return key


def priced(step: ModelStep, settings: ModelSettings) -> ModelStep:
    """The step with what it cost, or marked as unpriced: no price is set, or the provider told no usage."""
    used = step.usage
    if settings.input_price is None or settings.output_price is None or not (used.input_tokens or used.output_tokens):
        return step.model_copy(update={"usage": used.model_copy(update={"unpriced_calls": used.calls})})
    # A price per million tokens is as many millionths per token.
    cost = used.input_tokens * settings.input_price + used.output_tokens * settings.output_price
    return step.model_copy(update={"usage": used.model_copy(update={"cost_micro": round(cost)})})


def _host(settings: ModelSettings) -> str:
    return urlsplit(settings.base_url).netloc.rpartition("@")[2]


def _another_may_help(error: HermesTasksError) -> bool:
    if isinstance(error, ModelRefused):
        return error.status in _REFUSED_KEY
    return isinstance(error, ModelUnavailable | RateLimited)
