"""Steps: the checkpoints of a run, as they are stored. A step is one JSON object with a literal tag ``t``.

``model``    one stored answer of the model (an iteration)
``started``  tool calls that began; without a later ``tool`` step their effect is unknown
``tool``     the result of one tool call, named by its index in the last model step, never by the model's id
``summary``  replaces older steps in the model's view (context compression); the originals are kept
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class _Step(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ToolCall(_Step):
    """One call the model asked for. ``arguments`` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


class Usage(_Step):
    """Tokens and money of one or more model calls.

    Attributes:
        cost_micro: millionths of the currency in which the models' prices are set.
        unpriced_calls: calls of models without a price; the cost of those is not in ``cost_micro``.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    cost_micro: int = 0
    unpriced_calls: int = 0

    @property
    def cost(self) -> float | None:
        """The money, or None when any call's price is unknown."""
        return None if self.unpriced_calls else self.cost_micro / 1_000_000

    def plus(self, other: Usage) -> Usage:
        """The sum of both."""
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})


class ModelStep(_Step):
    """A stored model answer. ``finish`` is our word for why it ended: ``stop``, ``length`` or ``tool_calls``."""

    t: Literal["model"] = "model"
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"
    model: str = ""
    usage: Usage = Usage()


class StartedStep(_Step):
    """Calls that began. ``batch`` is set when the call is a delegation that waits for children."""

    t: Literal["started"] = "started"
    calls: tuple[int, ...]
    batch: str | None = None


class ToolStep(_Step):
    """The result of call number ``call`` of the last model step, as the model will read it."""

    t: Literal["tool"] = "tool"
    call: int
    name: str
    content: str
    status: Literal["ok", "error", "unknown"] = "ok"


class SummaryStep(_Step):
    """Replaces the first ``upto`` steps (and, with ``history``, the conversation before the run) in the model's view.

    ``upto`` never stands between an answer and the results of its calls. The last summary counts, the earlier ones
    are part of it.
    """

    t: Literal["summary"] = "summary"
    text: str
    upto: int = 0
    history: bool = False
    usage: Usage = Usage()


Step = Annotated[ModelStep | StartedStep | ToolStep | SummaryStep, Field(discriminator="t")]
_ADAPTER: TypeAdapter[ModelStep | StartedStep | ToolStep | SummaryStep] = TypeAdapter(Step)


def step_from_json(text: str | bytes) -> ModelStep | StartedStep | ToolStep | SummaryStep:
    """Decode one stored step; unknown fields of a newer version are ignored."""
    return _ADAPTER.validate_json(text)
