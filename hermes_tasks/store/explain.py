"""Why a run is where it is: what it waits for, since when, and what would let it go on.

Read in a few looks at the records, not in one script: what it says was true within these milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hermes_tasks.contracts.errors import NotFound
from hermes_tasks.contracts.kinds import QUEUE_OF_KIND, RunKind, RunState, WaitReason
from hermes_tasks.contracts.runs import RunRecord
from hermes_tasks.contracts.steps import ModelStep, StartedStep, ToolStep, step_from_json
from hermes_tasks.store.client import Store
from hermes_tasks.store.keys import user_key
from hermes_tasks.store.presence import workers_on
from hermes_tasks.store.runs import record_of

_PAUSED: Final[Mapping[WaitReason, tuple[str, str]]] = {
    WaitReason.PERMIT: ("provider limit", "all calls that the provider of model {detail} may run at a time are in use"),
    WaitReason.RATE: ("provider limit", "the provider of model {detail} asks to wait, or its rate limit is reached"),
    WaitReason.BACKOFF: ("backoff", "the model failed ({detail}); {failures} times in a row"),
    WaitReason.BUDGET: ("held: budget", "the user's tokens of the day are used up; they begin anew at {detail}"),
}


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing a run waits for, or does.

    Attributes:
        what: a short word: ``window``, ``provider limit``, ``held: budget``, ``no worker``, ``backoff``,
            ``children``, ``inbox``, ``worker``, ``running``, ``ended``.
        since_ms, until_ms: milliseconds since the epoch; None = not known, or no limit.
    """

    what: str
    detail: str
    since_ms: int | None = None
    until_ms: int | None = None


async def explain(store: Store, user: str, run: str) -> tuple[RunRecord | None, list[Reason]]:
    """The run's record (None while its message waits for its turn) and why it is where it is.

    Raises:
        NotFound: there is no such run of this user.
    """
    [fields] = await store.read(("HGETALL", user_key(user, f"run:{run}")))
    if not fields:
        return None, [await _in_inbox(store, user, run)]
    record = record_of(user, fields)
    if record.state.terminal:
        why = str(record.result.get("error") or "") or str(record.exit_reason)
        return record, [Reason("ended", f"{record.state}: {why}", record.ended)]
    if record.state is RunState.RUNNING:
        return record, [await _at_work(store, record, fields)]
    if record.state is RunState.WAITING:
        return record, [_paused(record)] if record.wake else await _children(store, record)
    return record, [await _queued(store, record, fields)]


async def _in_inbox(store: Store, user: str, message: str) -> Reason:
    [sessions] = await store.read(("ZREVRANGE", user_key(user, "sessions"), 0, -1))
    if sessions:
        places = await store.read(*(("LPOS", user_key(user, f"inbox:{name}"), message) for name in sessions))
        for name, place in zip(sessions, places, strict=True):
            if place is not None:
                [open_turn] = await store.read(("HGET", user_key(user, f"sess:{name}"), "open"))
                before = f"{place} messages before it" if place else "no message before it"
                return Reason("inbox", f"waits for its turn in session {name}: {before}, and turn {open_turn} is open")
    raise NotFound(f"there is no run {message}", field="run")


async def _at_work(store: Store, record: RunRecord, fields: Mapping[str, str]) -> Reason:
    [texts] = await store.read(("LRANGE", user_key(record.user, f"steps:{record.id}"), 0, -1))
    names: dict[int, str] = {}
    for step in map(step_from_json, texts):
        if isinstance(step, ModelStep):
            names = {number: call.name for number, call in enumerate(step.calls)}
        elif isinstance(step, ToolStep):
            names.pop(step.call, None)
    doing = f"runs {', '.join(names.values())}" if names else "asks the model"
    detail = f"{doing}, in process {record.worker}, step {record.steps}"
    return Reason("running", detail, int(fields.get("claimed", 0)) or None, record.deadline or None)


def _paused(record: RunRecord) -> Reason:
    what, text = _PAUSED[WaitReason(record.why)]
    detail = text.format(detail=record.detail or "default", failures=record.failures)
    return Reason(what, detail, record.since or None, record.wake)


async def _children(store: Store, record: RunRecord) -> list[Reason]:
    [texts] = await store.read(("LRANGE", user_key(record.user, f"steps:{record.id}"), 0, -1))
    batches = [step.batch for step in map(step_from_json, texts) if isinstance(step, StartedStep) and step.batch]
    found: list[Reason] = []
    for batch in batches:
        [fields] = await store.read(("HGETALL", user_key(record.user, f"batch:{batch}")))
        if fields and "joined" not in fields and fields.get("road") != "mailbox":
            found += await _open_children(store, record, fields)
    return found or [Reason("children", "its children have ended; it is about to go on", record.since or None)]


async def _open_children(store: Store, parent: RunRecord, batch: Mapping[str, str]) -> list[Reason]:
    size, waited = int(batch["size"]), await _wait_end(store, parent.user, batch["id"])
    states = await store.read(
        *(
            ("HMGET", user_key(parent.user, f"run:{batch[f'child:{number}']}"), "state", "worker")
            for number in range(size)
        )
    )
    return [
        Reason(
            "children", f"child {number} of {size} ({batch[f'child:{number}']}) is {state}"
            + (f" in process {worker}" if state == RunState.RUNNING else ""), int(batch["created"]), waited,
        )
        for number, (state, worker) in enumerate(states)
        if state and not RunState(state).terminal
    ]  # fmt: skip


async def _wait_end(store: Store, user: str, batch: str) -> int | None:
    [at] = await store.read(("ZSCORE", user_key(user, "due"), f"wait:{batch}"))
    return None if at is None else int(float(at))


async def _queued(store: Store, record: RunRecord, fields: Mapping[str, str]) -> Reason:
    since = int(fields.get("queued", 0)) or record.created
    if fields.get("admitted") != "1":
        return await _before_window(store, record)
    not_before = int(fields.get("not_before", 0))
    if not_before > store.now_ms():
        text = f"{record.attempts} processes died while running it and nothing was stored; it is tried again later"
        return Reason("backoff", text, since, not_before)
    queue = QUEUE_OF_KIND[record.kind]
    workers = await workers_on(store, queue)
    if not workers:
        return Reason("no worker", f"no worker serves the queue {queue}; start one with workers/{queue}.py", since)
    rung = int(fields.get("rung", 0))
    text = f"rung {rung + 1} times for the queue {queue}, which is served by {len(workers)}: {', '.join(workers)}"
    return Reason("worker", text, since)


async def _before_window(store: Store, record: RunRecord) -> Reason:
    kind, user = str(record.kind), record.user
    parent = record.parent if record.kind is RunKind.CHILD else ""
    in_flight, beside, first, queues, mine = await store.read(
        ("SCARD", user_key(user, f"win:{kind}")),
        ("SCARD", user_key(user, f"winp:{parent or '-'}")),
        ("LPOS", user_key(user, f"first:{kind}"), record.id),
        ("LLEN", user_key(user, f"back:{kind}")),
        ("LPOS", user_key(user, f"back:{kind}:{parent or '-'}"), record.id),
    )
    limit, per_parent = store.config.windows[kind], store.config.children_per_parent
    if parent and beside >= per_parent:
        what = f"{beside} of {per_parent} children of its parent are in flight"
    else:
        what = f"{in_flight} of {limit} runs of kind {kind} of this user are in flight"
    return Reason("window", f"{what}; {_place(first, queues, mine)}", record.created)


def _place(first: int | None, queues: int, mine: int | None) -> str:
    if first is not None:
        return f"{first} resumed runs go before it"
    if mine is None:
        return "it is about to be admitted"
    return f"{mine} runs of the same parent go before it, and {max(0, queues - 1)} other parents take turns with it"
