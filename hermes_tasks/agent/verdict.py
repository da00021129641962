"""Is the run over, and how: decided from its stored steps alone, so a stored final answer is never paid for twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from hermes_tasks.agent.partial import partial_text
from hermes_tasks.agent.progress import Progress, all_progress, is_blank, spent
from hermes_tasks.contracts.errors import (
    BadModelAnswer,
    ContextTooLong,
    DeadlineExceeded,
    HermesTasksError,
    InvalidRequest,
    ModelRefused,
    RateLimited,
    Retryable,
)
from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.kinds import ExitReason, RunState
from hermes_tasks.contracts.runs import Outcome, Policy
from hermes_tasks.contracts.steps import ToolCall

#: The same mistake in that many answers in a row ends the run.
MAX_REPEATS: Final = 5
_REASON_CHARS: Final = 500


def verdict(policy: Policy, steps: Sequence[AnyStep]) -> Outcome | None:
    """The outcome if the newest answer ends the run, or None when there is more to do.

    The last answer a policy allows is asked for without tools; with it the run is ``exhausted`` when it has text and
    ``failed`` when it has none. A call in it is never run. A policy of one answer has nothing to cut short: its text
    is an ordinary final answer.
    """
    found = all_progress(steps)
    if not found:
        return None
    last, used = found[-1], len(found)
    out_of_answers = used >= policy.iterations
    if last.answer.calls and not out_of_answers:
        return None if last.open_calls else _repeated_failure(found, steps)
    if is_blank(last.answer.text):
        if out_of_answers and (used > 1 or last.answer.calls):
            what = "only a tool call, which was not run" if last.answer.calls else "no text"
            reason = f"all {policy.iterations} answers are used and the last one had {what}"
            return failed(ExitReason.MAX_ITERATIONS, reason, steps)
        if out_of_answers or (used > 1 and is_blank(found[-2].answer.text) and not found[-2].answer.calls):
            return failed(ExitReason.EMPTY_ANSWER, "the model answered without text and without a tool call", steps)
        return None
    if out_of_answers and (used > 1 or last.answer.calls):
        reason = f"all {policy.iterations} answers are used; the text says how far it came"
        return Outcome(
            state=RunState.EXHAUSTED, exit_reason=ExitReason.MAX_ITERATIONS, text=last.answer.text, error=reason
        )
    cut = last.answer.finish == "length"
    reason_code = ExitReason.TRUNCATED if cut else ExitReason.COMPLETED
    return Outcome(state=RunState.COMPLETED, exit_reason=reason_code, text=last.answer.text)


def over_budget(policy: Policy, steps: Sequence[AnyStep], coming: int) -> Outcome | None:
    """The outcome when the next call, with ``coming`` input tokens, would pass the run's token budget."""
    usage = spent(steps)
    used = usage.input_tokens + usage.output_tokens
    if policy.token_budget == 0 or used + coming <= policy.token_budget:
        return None
    reason = f"token budget of {policy.token_budget}: {used} are used and the next call needs about {coming}"
    return failed(ExitReason.TOKEN_BUDGET, reason, steps)


def over_day(told: str, steps: Sequence[AnyStep]) -> Outcome:
    """The outcome when the tokens of the user's day do not suffice: what was finished, and why it ends here."""
    outcome = failed(ExitReason.TOKEN_BUDGET, told, steps)
    sentence = f"I have to stop here: {told}."
    return outcome.model_copy(update={"text": "\n\n".join(part for part in (outcome.text, sentence) if part)})


def timed_out(error: DeadlineExceeded, steps: Sequence[AnyStep], streaming: str) -> Outcome:
    """The outcome at the deadline: what was said and finished until then, ``streaming`` included."""
    text = partial_text(steps, streaming)
    return Outcome(state=RunState.TIMED_OUT, exit_reason=ExitReason.DEADLINE, text=text, error=one_line(str(error)))


def failed(exit_reason: ExitReason, reason: str, steps: Sequence[AnyStep]) -> Outcome:
    """A failure with its reason in one line, and what was said and finished until then."""
    return Outcome(state=RunState.FAILED, exit_reason=exit_reason, text=partial_text(steps, ""), error=one_line(reason))


def classified(error: HermesTasksError) -> str:
    """The kind of failure and its text, in one line; the kind comes from the class, never from the text."""
    kinds: tuple[tuple[type[HermesTasksError], str], ...] = (
        (ContextTooLong, "context too long"),
        (ModelRefused, "refused by the model's provider"),
        (BadModelAnswer, "not a model's answer"),
        (RateLimited, "rate limited"),
        (Retryable, "model unavailable"),
        (InvalidRequest, "invalid"),
    )
    kind = next((name for cls, name in kinds if isinstance(error, cls)), "failed")
    return one_line(f"{kind}: {error}")


def one_line(text: str) -> str:
    """The text without line breaks, at most 500 characters."""
    return " ".join(text.split())[:_REASON_CHARS]


def _repeated_failure(found: Sequence[Progress], steps: Sequence[AnyStep]) -> Outcome | None:
    """Five answers in a row with one and the same failing call, and nothing that worked beside it."""
    recent = found[-MAX_REPEATS:]
    if len(recent) < MAX_REPEATS:
        return None
    common = set.intersection(*(_failures(progress) for progress in recent))
    if not common:
        return None
    name, _, error = min(common)
    reason = f"{name} failed {MAX_REPEATS} times in a row with the same arguments and error: {error}"
    return failed(ExitReason.REPEATED_FAILURE, reason, steps)


def _failures(progress: Progress) -> set[tuple[str, str, str]]:
    """(name, arguments, error) of the failed calls, or nothing when any call of the answer did work."""
    calls = progress.answer.calls
    results = [(calls[number], step) for number, step in progress.results.items() if number < len(calls)]
    if any(step.status != "error" for _, step in results):
        return set()
    return {(call.name, _one_spelling(call), step.content) for call, step in results}


def _one_spelling(call: ToolCall) -> str:
    """The arguments with sorted keys and without spaces, so that these do not hide a repetition."""
    try:
        return json.dumps(json.loads(call.arguments), sort_keys=True)
    except ValueError:
        return call.arguments
