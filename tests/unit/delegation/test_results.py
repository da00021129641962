"""The joined result: the peer's shape, whatever became of each child."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes_tasks.contracts.kinds import PEER_STATUS, ExitReason, RunKind, RunState
from hermes_tasks.contracts.runs import Policy, RunRecord
from hermes_tasks.contracts.steps import ModelStep, StartedStep, SummaryStep, ToolCall, ToolStep, Usage
from hermes_tasks.delegation.results import Ended, batch_result, summary_chars

POLICY = Policy(iterations=5, deadline_s=60)


def child(index: int = 0, state: RunState = RunState.COMPLETED, text: str = "done", **more: Any) -> Ended:
    steps, pointer = more.pop("steps", []), more.pop("pointer", "")
    record = RunRecord(
        **{
            "id": f"b.{index}", "kind": RunKind.CHILD, "user": "ann", "index": index, "state": state, "policy": POLICY,
            "spec": {"goal": f"goal {index}"}, "created": 1_000, "started": 2_000, "ended": 3_500,
            "exit_reason": ExitReason.COMPLETED,
        }
        | more
    )  # fmt: skip
    return Ended(record, steps, text, pointer)


def read(*children: Ended, most_chars: int = 1000) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(batch_result(children, most_chars))
    return found


def entry(one: Ended, most_chars: int = 1000) -> dict[str, Any]:
    found: dict[str, Any] = read(one, most_chars=most_chars)["results"][0]
    return found


def test_the_peers_keys_are_there_in_task_order() -> None:
    found = read(child(0, ended=9_000), child(1, created=500, ended=4_000))
    assert found["total_duration_seconds"] == 8.5, "from the first that was made to the last that ended"
    assert [(one["task_index"], one["goal"]) for one in found["results"]] == [(0, "goal 0"), (1, "goal 1")]
    assert set(found["results"][0]) == {
        "task_index", "goal", "status", "summary", "exit_reason", "api_calls", "duration_seconds", "model", "tokens",
        "cost", "tool_trace", "run",
    }  # fmt: skip
    assert found["results"][1]["duration_seconds"] == 2.0


@pytest.mark.parametrize("state", [state for state in RunState if state.terminal])
def test_each_state_is_told_in_the_peers_words_and_failures_say_why(state: RunState) -> None:
    found = entry(child(state=state, exit_reason=ExitReason.DEADLINE, result={"error": "it took too long"}))
    assert (found["status"], found["exit_reason"]) == PEER_STATUS[state]
    assert found.get("error") == (None if state is RunState.COMPLETED else "it took too long")


def test_a_failure_without_words_still_says_what_it_was() -> None:
    found = entry(child(state=RunState.LOST, exit_reason=ExitReason.MAX_ATTEMPTS, text=""))
    assert found["error"] == "the sub-agent ended as lost: max_attempts"
    assert found["summary"] is None


@pytest.mark.parametrize("state", [RunState.EXHAUSTED, RunState.FAILED])
def test_out_of_iterations_can_be_told_from_finished(state: RunState) -> None:
    found = entry(child(state=state, exit_reason=ExitReason.MAX_ITERATIONS, text="so far"))
    assert (found["status"], found["exit_reason"], found["summary"]) == ("failed", "max_iterations", "so far")


def test_an_answer_cut_by_the_model_is_noted() -> None:
    assert "output limit" in entry(child(exit_reason=ExitReason.TRUNCATED))["note"]
    assert "note" not in entry(child())


def test_calls_models_and_tools_are_counted_from_the_steps() -> None:
    read_file = ToolCall(id="a", name="read_file", arguments='{"path": "é"}')
    steps = [
        ModelStep(calls=(read_file, ToolCall(id="a", name="web", arguments="{}")), model="small-1"),
        StartedStep(calls=(0, 1)),
        ToolStep(call=1, name="web", content="no", status="error"),
        ToolStep(call=0, name="read_file", content="añb", status="ok"),
        SummaryStep(text="so far"),
        ModelStep(calls=(ToolCall(id="b", name="web", arguments=""),), model="small-2"),
        ToolStep(call=0, name="web", content="", status="unknown"),
        ModelStep(text="done", model=""),
    ]
    found = entry(child(steps=steps, usage=Usage(input_tokens=70, output_tokens=6, calls=0)))
    assert found["api_calls"] == 4, "also when the provider reports no usage"
    assert found["tokens"] == {"input": 70, "output": 6}
    assert found["model"] == "", "the newest answer's"
    assert found["tool_trace"] == [
        {"tool": "web", "args_bytes": 2, "result_bytes": 2, "status": "error"},
        {"tool": "read_file", "args_bytes": 14, "result_bytes": 4, "status": "ok"},
        {"tool": "web", "args_bytes": 0, "result_bytes": 0, "status": "error"},
    ]


def test_an_answer_of_exactly_the_limit_is_whole() -> None:
    found = entry(child(text="x" * 100), most_chars=100)
    assert found["summary"] == "x" * 100
    assert "summary_truncated" not in found


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"line {number}" for number in range(200)),
        "x" * 5000,
        "Title\n" + "one very long line " * 200,
        "one very long line " * 200 + "\nend",
        "é汉👩‍🚀" * 300,
    ],
)
def test_a_longer_one_keeps_head_and_tail_and_says_where_the_rest_is(text: str) -> None:
    found = entry(child(text=text, pointer="result:b.0/answer"), most_chars=400)
    assert found["summary_truncated"] is True
    assert found["summary_full_path"] == "result:b.0/answer"
    head, _, rest = found["summary"].partition("\n[… ")
    note, _, tail = rest.rpartition(" …]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert 400 * 0.8 <= len(head) + len(tail) <= 400
    assert len(head) > 2 * len(tail)
    assert note.startswith(f"{len(text) - len(head) - len(tail)} of {len(text)} characters left out")
    assert f"pointer result:b.0/answer, offset {len(head)}" in note


def test_head_and_tail_end_at_lines_where_lines_are_short() -> None:
    found = entry(child(text="a line of text\n" * 100, pointer="p"), most_chars=400)
    head, _, rest = found["summary"].partition("\n[… ")
    assert head.endswith("text\n")
    assert rest.rpartition(" …]\n")[2].startswith("a line")


@pytest.mark.parametrize(
    ("static", "left", "count", "most"),
    [
        (24_000, None, 3, 24_000),  # unknown context: the static cap alone
        (24_000, 100_000, 1, 24_000),  # 200,000 characters would fit
        (24_000, 9_000, 3, 6_000),  # half of 9,000 tokens, over three, four characters each
        (24_000, 100, 12, 2_000),  # never below the floor
        (0, 9_000, 1, 18_000),  # 0 = no static cap
        (1_000, 9_000, 1, 1_000),
    ],
)
def test_a_summary_is_cut_to_what_the_parent_can_hold(static: int, left: int | None, count: int, most: int) -> None:
    assert summary_chars(static, left, count) == most


def test_without_any_cap_nothing_is_cut() -> None:
    assert summary_chars(0, None, 1) > 10**9


def test_money_is_told_with_what_lies_below_or_that_no_price_is_known() -> None:
    used, below = (
        Usage(input_tokens=5, calls=1, cost_micro=1_500_000),
        Usage(input_tokens=2, calls=1, cost_micro=250_000),
    )
    found = entry(child(usage=used, below=below))
    assert (found["tokens"]["input"], found["cost"]) == (7, 1.75)
    assert entry(child(usage=Usage(calls=1, unpriced_calls=1)))["cost"] == "price unknown"


def test_what_was_left_out_of_the_wish_stands_beside_the_result() -> None:
    found = entry(child(spec={"goal": "g", "notes": ["no terminal"]}, exit_reason=ExitReason.TRUNCATED))
    assert found["note"].startswith("no terminal; the answer was cut")
