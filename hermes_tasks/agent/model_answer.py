"""One answer of a model, collected from its chunks and normalised to a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hermes_tasks.agent.model_calls import CallAssembler, well_formed
from hermes_tasks.contracts.steps import ModelStep, Usage

_LENGTH: Final = frozenset({"length", "max_tokens", "model_length"})


class Answer:
    """Takes chunks (or a whole completion) one by one; :meth:`step` is the result.

    Attributes:
        begun: whether any chunk looked like part of a chat completion.
        finish: the provider's own word for why it ended; empty until it says so.
    """

    def __init__(self) -> None:
        self.begun = False
        self.finish = ""
        self._text: list[str] = []
        self._half = ""
        self._calls = CallAssembler()
        self._input_tokens = 0
        self._output_tokens = 0

    @property
    def empty(self) -> bool:
        """Whether neither text nor a call has come."""
        return not self._text and not self._calls.calls()

    def take(self, chunk: Mapping[str, Any]) -> str:
        """Add one chunk and return the text it brought. Chunks without choices bring usage at most."""
        self._count(chunk.get("usage"))
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, Sequence) and choices else None
        if not isinstance(choice, Mapping):
            return ""
        self.begun = True
        self._count(choice.get("usage"))
        if isinstance(choice.get("finish_reason"), str):
            self.finish = choice["finish_reason"].lower()
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            # A whole message: the answer of a server that does not stream, or repeats it all at the end.
            delta = choice.get("message") if self.empty else None
        if not isinstance(delta, Mapping):
            return ""
        calls = delta.get("tool_calls")
        for item in calls if isinstance(calls, list) else [calls]:
            self._calls.add(item)
        text = self._half + (_content(delta.get("content")) or _content(delta.get("refusal")))
        # An emoji cut in the middle by a server that counts in UTF-16 waits for its other half.
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = well_formed(text.removesuffix(self._half) if self._half else text)
        if text:
            self._text.append(text)
        return text

    def step(self, model: str) -> ModelStep:
        """The normalised step.

        ``finish`` is ``tool_calls`` whenever there are calls, whatever the provider said, except that an answer
        which was cut inside a call stays ``length``: that call must not be run.
        """
        calls = self._calls.calls()
        cut = self.finish in _LENGTH and not (calls and self._calls.whole)
        return ModelStep(
            text="".join((*self._text, well_formed(self._half))),
            calls=calls,
            finish="length" if cut else "tool_calls" if calls else "stop",
            model=model,
            usage=Usage(input_tokens=self._input_tokens, output_tokens=self._output_tokens, calls=1),
        )

    def _count(self, usage: object) -> None:
        """Keep the largest figures: providers repeat usage, send it as a running sum, or end with zeros."""
        if isinstance(usage, Mapping):
            self._input_tokens = max(self._input_tokens, _tokens(usage.get("prompt_tokens")))
            self._output_tokens = max(self._output_tokens, _tokens(usage.get("completion_tokens")))


def _content(value: object) -> str:
    """Text of a ``content`` field; of a list of parts, the text parts only (reasoning parts are not text)."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    parts = [part for part in value if isinstance(part, Mapping) and part.get("type") == "text"]
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _tokens(value: object) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < 1e12 else 0
