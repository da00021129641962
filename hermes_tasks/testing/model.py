"""A model that says what the test wrote down, and notices every question that was not foreseen or never asked."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from hermes_tasks.contracts.models import ModelRequest, OnText
from hermes_tasks.contracts.steps import ModelStep, ToolCall, Usage

Live = Callable[[ModelRequest, OnText | None], Awaitable[ModelStep]]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that arrives in the given pieces."""

    answer: ModelStep
    pieces: tuple[str, ...]


AnyReply = ModelStep | Reply | Exception | Live


def said(text: str, finish: str = "stop", *, tokens: tuple[int, int] = (0, 0)) -> ModelStep:
    """An answer in words. ``tokens``: input and output as the provider reports them."""
    return ModelStep(text=text, finish=finish, usage=Usage(input_tokens=tokens[0], output_tokens=tokens[1], calls=1))


def called(
    *calls: tuple[str, object], text: str = "", finish: str = "tool_calls", tokens: tuple[int, int] = (0, 0)
) -> ModelStep:
    """An answer that calls tools: (name, arguments), the arguments as an object or as the raw text."""
    made = tuple(
        ToolCall(id=f"call_{number}", name=name, arguments=args if isinstance(args, str) else json.dumps(args))
        for number, (name, args) in enumerate(calls)
    )
    usage = Usage(input_tokens=tokens[0], output_tokens=tokens[1], calls=1)
    return ModelStep(text=text, calls=made, finish=finish, usage=usage)


class ScriptedModel:
    """A ``ModelPort`` with one reply per call, in order. As a context manager it checks the whole script.

    Args:
        replies: a step, a step in pieces, an exception to raise, or a coroutine function that answers live.
        window: the context window it claims, in tokens.
    """

    def __init__(self, replies: Sequence[AnyReply], *, window: int = 1_000_000) -> None:
        self._replies = list(replies)
        self._next = 0
        self._window = window
        self._unexpected: list[ModelRequest] = []
        #: Every request, repeated ones included.
        self.requests: list[ModelRequest] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.check()

    def check(self) -> None:
        """Fail when a reply was not used or a question was not foreseen.

        Raises:
            AssertionError: says which.
        """
        if self._unexpected:
            raise AssertionError(f"the model was asked {len(self._unexpected)} times more than the script foresaw")
        unused = self._replies[self._next :]
        if unused:
            raise AssertionError(f"{len(unused)} replies of the script were never asked for, the first: {unused[0]!r}")

    def resume(self, used: int) -> None:
        """Go on with reply number ``used``, as a provider that is asked again for what was never stored."""
        self._next = used

    async def ask(self, request: ModelRequest, on_text: OnText | None = None) -> ModelStep:
        """See ``ModelPort``.

        Raises:
            AssertionError: the script has no reply left.
        """
        self.requests.append(request)
        if self._next >= len(self._replies):
            self._unexpected.append(request)
            raise AssertionError(f"call {len(self.requests)} of the model was not foreseen: {request.messages[-1]}")
        reply = self._replies[self._next]
        self._next += 1
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, ModelStep):
            reply = Reply(reply, (reply.text,))
        if isinstance(reply, Reply):
            for piece in reply.pieces:
                if on_text is not None and piece:
                    await on_text(piece)
            return reply.answer
        return await reply(request, on_text)

    def context_tokens(self, model: str) -> int:  # noqa: ARG002 - the port's signature
        """See ``ModelPort``: the same window for every model."""
        return self._window
