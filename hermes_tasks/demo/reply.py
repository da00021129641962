"""What the scripted server answers: a reply as data, and the forms it takes on the wire, odd ones included."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final


class Absent(Enum):
    """A field that is left out, which is not the same as ``null``."""

    ABSENT = "absent"


class Auto(Enum):
    """A field that takes the value a well-behaved provider would send."""

    AUTO = "auto"


ABSENT: Final = Absent.ABSENT
AUTO: Final = Auto.AUTO
#: Chunks without a choice, as llama.cpp and LiteLLM send them: for ``Reply.insert``.
EMPTY_CHOICES: Final[Mapping[str, Any]] = {"object": "chat.completion.chunk", "choices": []}
NO_CHOICES: Final[Mapping[str, Any]] = {"object": "chat.completion.chunk"}
MALFORMED: Final = b'data: {"choices": [{"delta": {"cont\n\n'
#: Words per streamed piece, when a reply does not say how its text is cut.
WORDS_PER_PIECE: Final = 3


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of a reply.

    Attributes:
        arguments: JSON text or an object; an object stays an object on the wire, as some providers send it.
        id: ``AUTO`` = unique per answer, ``ABSENT`` = left out.
        index: ``AUTO`` = the place among the calls, ``ABSENT`` = left out.
        fragments: into how many pieces the argument text is cut.
    """

    name: str
    arguments: str | Mapping[str, Any] | None = "{}"
    id: str | Absent | Auto | None = AUTO
    index: int | Absent | Auto | None = AUTO
    fragments: int = 2

    def items(self, prefix: str, place: int) -> list[dict[str, Any]]:
        """The streamed fragments of this call: the first names it, all of them carry its index."""
        text = self.arguments
        pieces: Sequence[Any] = _cut(text, self.fragments) if isinstance(text, str) else [text]
        index = place if self.index is AUTO else self.index
        head = {} if index is ABSENT else {"index": index}
        first: dict[str, Any] = {**head, "type": "function", "function": {"name": self.name, "arguments": pieces[0]}}
        if self.id is not ABSENT:
            first["id"] = f"{prefix}_{place}" if self.id is AUTO else self.id
        return [first, *({**head, "function": {"arguments": piece}} for piece in pieces[1:])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of the server.

    Positions count the chunks of the stream from 0: role, reasoning, text pieces, ``deltas``, call fragments,
    the chunk with the finish reason, the usage chunk.

    Attributes:
        text: the answer; a sequence fixes how it is cut into chunks.
        calls: tool calls, in fragments.
        reasoning: sent as ``reasoning_content`` before the text.
        finish: the finish reason; ``AUTO`` = ``tool_calls`` or ``stop``, ``ABSENT`` = the key never comes.
        usage: prompt and completion tokens, sent when the request asks for them; None = never.
        usage_everywhere: a running usage in every chunk as well, as vLLM does on request.
        content_null: chunks without text carry ``content: null``.
        deltas: raw deltas, each its own chunk.
        insert: (position, chunk): a raw chunk before that position; ``-1`` = after the last.
        drop_after: the connection breaks after that many chunks.
        malformed_at: that chunk is cut in the middle of its JSON.
        done: whether ``[DONE]`` closes the stream.
        delay: seconds before the first byte.
        chunk_delay: seconds after each chunk.
        status: any other than 200 sends ``body`` instead of an answer.
        retry_after: the header of that name.
        body: sent instead of an answer: an object as JSON, text or bytes as they are.
        content_type: of a text or bytes body.
    """

    text: str | Sequence[str] = ""
    calls: Sequence[Call] = ()
    reasoning: str = ""
    finish: str | Absent | Auto | None = AUTO
    usage: tuple[int, int] | None = (10, 5)
    usage_everywhere: bool = False
    content_null: bool = False
    deltas: Sequence[Mapping[str, Any]] = ()
    insert: Sequence[tuple[int, Mapping[str, Any] | bytes]] = ()
    drop_after: int | None = None
    malformed_at: int | None = None
    done: bool = True
    delay: float = 0.0
    chunk_delay: float = 0.0
    status: int = 200
    retry_after: str | None = None
    body: Mapping[str, Any] | str | bytes | None = None
    content_type: str = "application/json"

    def stream(self, head: Mapping[str, Any], *, with_usage: bool) -> list[bytes]:
        """The chunks of this reply as server-sent events; ``head`` has their id, model and time."""
        deltas = self._deltas(str(head["id"]))
        chunks: list[Mapping[str, Any] | bytes] = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        last: dict[str, Any] = {"index": 0, "delta": {"content": None} if self.content_null else {}}
        if self.finish is not ABSENT:
            last["finish_reason"] = self._finish()
        chunks.append({**head, "choices": [last]})
        if self.usage and self.usage_everywhere:
            chunks = [{**chunk, "usage": self._usage()} for chunk in chunks if isinstance(chunk, Mapping)]
        if self.usage and with_usage:
            chunks.append({**head, "choices": [], "usage": self._usage()})
        if self.malformed_at is not None:
            chunks[self.malformed_at] = MALFORMED
        for position, chunk in sorted(self.insert, key=lambda item: item[0], reverse=True):
            chunks.insert(position if position >= 0 else len(chunks), chunk)
        events = [_event(chunk) for chunk in chunks]
        return [*events, b"data: [DONE]\n\n"] if self.done else events

    def completion(self, head: Mapping[str, Any]) -> dict[str, Any]:
        """This reply as one JSON answer, for a request without ``stream``."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self.text) or None}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            whole = [Call(call.name, call.arguments, call.id, call.index, fragments=1) for call in self.calls]
            message["tool_calls"] = [call.items(_prefix(head["id"]), place)[0] for place, call in enumerate(whole)]
        choice: dict[str, Any] = {"index": 0, "message": message}
        if self.finish is not ABSENT:
            choice["finish_reason"] = self._finish()
        answer = {**head, "object": "chat.completion", "choices": [choice]}
        return {**answer, "usage": self._usage()} if self.usage else answer

    def _deltas(self, ident: str) -> list[Mapping[str, Any]]:
        empty: dict[str, Any] = {"content": None} if self.content_null else {}
        deltas: list[Mapping[str, Any]] = [{"role": "assistant", "content": None if self.content_null else ""}]
        if self.reasoning:
            deltas.append({**empty, "reasoning_content": self.reasoning})
        deltas.extend({"content": piece} for piece in _pieces(self.text))
        deltas.extend(self.deltas)
        for place, call in enumerate(self.calls):
            deltas.extend({**empty, "tool_calls": [item]} for item in call.items(_prefix(ident), place))
        return deltas

    def _finish(self) -> str | None:
        if isinstance(self.finish, Absent | Auto):
            return "tool_calls" if self.calls else "stop"
        return self.finish

    def _usage(self) -> dict[str, int]:
        prompt, completion = self.usage or (0, 0)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _pieces(text: str | Sequence[str]) -> list[str]:
    if not isinstance(text, str):
        return list(text)
    words = re.findall(r"\s*\S+|\s+$", text)
    return ["".join(words[at : at + WORDS_PER_PIECE]) for at in range(0, len(words), WORDS_PER_PIECE)]


def _cut(text: str, parts: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, parts)))
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def _prefix(ident: object) -> str:
    return f"call_{ident}".replace("chatcmpl-", "")


def _event(chunk: Mapping[str, Any] | bytes) -> bytes:
    if isinstance(chunk, bytes):
        return chunk
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"
