"""How a reply leaves the server: as a stream, as a fixed body, or as a refusal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence

from aiohttp import web

from hermes_tasks.demo.reply import Reply


async def stream(request: web.Request, reply: Reply, events: Sequence[bytes]) -> tuple[web.StreamResponse, str]:
    """Send the events; the second value says whether they were ``answered`` or ``dropped``."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    for event in events[: reply.drop_after]:
        await response.write(event)
        if reply.chunk_delay:
            await asyncio.sleep(reply.chunk_delay)
    if reply.drop_after is None:
        await response.write_eof()
        return response, "answered"
    if request.transport is not None:
        request.transport.close()
    return response, "dropped"


def fixed(reply: Reply) -> web.Response:
    """The reply's own status and body, whatever they are."""
    headers = {"Retry-After": reply.retry_after} if reply.retry_after is not None else {}
    body = reply.body
    if body is None:
        body = {"error": {"message": f"scripted status {reply.status}", "type": "scripted", "code": None}}
    if isinstance(body, Mapping):
        body = json.dumps(body)
    raw = body.encode() if isinstance(body, str) else body
    return web.Response(status=reply.status, headers=headers, body=raw, content_type=reply.content_type)


def refusal(message: str, param: str | None = None) -> web.Response:
    """HTTP 400 in the form of the real API."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    return web.json_response({"error": error}, status=400)
