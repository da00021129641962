"""Runs: created, claimed, cancelled and read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hermes_tasks.contracts.bell import Bell
from hermes_tasks.contracts.errors import InvalidRequest, LeaseLost, NotFound
from hermes_tasks.contracts.ids import new_id
from hermes_tasks.contracts.journal import AnyStep
from hermes_tasks.contracts.kinds import RunState, WaitReason
from hermes_tasks.contracts.runs import NewRun, RunRecord
from hermes_tasks.contracts.steps import StartedStep, ToolStep, Usage, step_from_json
from hermes_tasks.contracts.strategy import Lost
from hermes_tasks.store.client import PATIENT, Store
from hermes_tasks.store.journal import Guard, StoreJournal
from hermes_tasks.store.keys import user_key
from hermes_tasks.store.presence import process_name
from hermes_tasks.store.renewer import Lease, Renewer
from hermes_tasks.store.rings import rings_of

#: From this many processes that died with it and stored nothing, a run is a suspect (run_claim.lua says the same).
SUSPECT_ATTEMPTS: Final = 2
_NOT_IN_RECORD: Final = ("spec", "policy", "result", "exit_reason")


def new_run_wire(run: NewRun) -> dict[str, Any]:
    """A run as the scripts take it: spec and policy as JSON text."""
    return {
        "id": run.id, "kind": str(run.kind), "session": run.session, "parent": run.parent, "batch": run.batch,
        "index": run.index, "depth": run.depth, "spec": json.dumps(run.spec, ensure_ascii=False),
        "policy": run.policy.model_dump_json(), "goal": str(run.spec.get("goal", ""))[:200],
    }  # fmt: skip


def record_of(user: str, fields: Mapping[str, str]) -> RunRecord:
    """Decode a stored record; unknown fields of a newer version are ignored."""
    plain = {name: value for name, value in fields.items() if name not in _NOT_IN_RECORD}
    return RunRecord(
        **plain,
        user=user,
        spec=json.loads(fields.get("spec") or "{}"),
        policy=json.loads(fields["policy"]),
        result=json.loads(fields.get("result") or "{}"),
        exit_reason=fields.get("exit_reason") or None,
        usage=_usage(fields, ""),
        below=_usage(fields, "below_"),
    )


def _usage(fields: Mapping[str, str], prefix: str) -> Usage:
    return Usage(**{name: int(fields.get(prefix + name, 0)) for name in Usage.model_fields})


@dataclass(frozen=True, slots=True)
class Batch:
    """The children of one call.

    Attributes:
        joined: all of them have ended.
        away: nobody waits for them; the results come as a turn of their own.
        children: in task order.
    """

    id: str
    parent: str
    joined: bool
    away: bool
    children: tuple[RunRecord, ...]


class Runs:
    """Every run of every user.

    Args:
        renewer: keeps claimed leases alive; None in processes that only create, cancel and read.
    """

    def __init__(self, store: Store, bell: Bell, renewer: Renewer | None = None) -> None:
        self._store, self._bell, self._renewer = store, bell, renewer
        self._suspect: tuple[StoreJournal, int] | None = None
        self._asking_for_suspect = False
        self._worker = process_name()

    async def create(self, run: NewRun) -> bool:
        """Store a run and ring for it, or let it wait for its window. False when the id exists: nothing changed.

        Raises:
            InvalidRequest: its parent has ended, or there is no such user.
        """
        answer = await self._store.call(
            "run_create",
            run.user,
            json.dumps(new_run_wire(run), ensure_ascii=False),
            hint_ms=self._store.config.ring_ms,
        )
        if answer["r"] == "parent_ended":
            raise InvalidRequest(f"run {run.parent} has ended: nothing can be started under it")
        await self._bell.ring(rings_of(run.user, answer))
        return bool(answer["r"] == "created")

    async def claim(self, user: str, run_id: str, lost: Lost | None = None) -> StoreJournal | None:
        """Take the lease of a queued run, or None when there is nothing to do for us now.

        Args:
            lost: called in the event loop as soon as the lease is known to be lost, or the run to be ended.
        """
        if self._renewer is None:
            raise LeaseLost("this process renews no leases, so it cannot claim runs")
        lease = Lease("run", user, run_id, 0, new_id(), on_lost=lost)
        answer = await self._ask(lease, "0")
        if answer["r"] != "suspect":
            return self._journal(self._renewer, lease, answer)
        if self._holds_suspect(self._renewer):
            return None
        self._asking_for_suspect = True
        try:
            return self._journal(self._renewer, lease, await self._ask(lease, "1"))
        finally:
            self._asking_for_suspect = False

    async def _ask(self, lease: Lease, suspect: str) -> dict[str, Any]:
        return await self._store.call(
            "run_claim", lease.user, lease.id, lease.holder, suspect, self._worker, hint_ms=self._store.config.lease_ms
        )

    def _journal(self, renewer: Renewer, lease: Lease, answer: Mapping[str, Any]) -> StoreJournal | None:
        if answer["r"] != "claimed":
            return None
        raw: dict[str, str] = answer["run"]
        lease.fence = int(raw["fence"])
        # Decoded before the lease is renewed: a record that cannot be read must not stay ours.
        record, steps = record_of(lease.user, raw), [step_from_json(text) for text in answer["steps"] or []]
        journal = StoreJournal(self._store, self._bell, renewer, record, renewer.add(lease), steps)
        if int(raw.get("attempts", 0)) >= SUSPECT_ATTEMPTS:
            self._suspect = (journal, len(steps))
        return journal

    def _holds_suspect(self, renewer: Renewer) -> bool:
        """One suspect at a time: a run that kills processes must not meet another that is only unlucky."""
        if self._asking_for_suspect or self._suspect is None:
            return self._asking_for_suspect
        journal, steps = self._suspect
        return renewer.holds(journal.lease) and len(journal.steps) == steps

    async def create_batch(
        self, guard: Guard, step: StartedStep | ToolStep, batch: str, call: int, children: Sequence[NewRun], *,
        wait_s: int = 0,
    ) -> None:  # fmt: skip
        """Write a delegation's step, its batch and its children in one script, under the parent's lease.

        Args:
            step: ``started`` when the parent waits for the results; the call's result (a handle) when they are to come
                as a turn of their own.
            wait_s: the parent waits so long, then it goes on with a handle; 0 = until the batch is joined.

        Raises:
            LeaseLost, RunCancelled: the guard's lease is gone; nothing was written.
        """
        answer = await self._store.call(
            "batch_create", guard.user, guard.run, guard.fence, guard.holder, guard.index, step.model_dump_json(),
            batch, call, json.dumps([new_run_wire(child) for child in children], ensure_ascii=False),
            "mailbox" if isinstance(step, ToolStep) else "", wait_s * 1000,
            hint_ms=self._store.config.ring_ms, patience=PATIENT,
        )  # fmt: skip
        await self._bell.ring(rings_of(guard.user, answer))
        if answer["r"] != "ok":
            raise guard.refusal(str(answer["r"]))

    async def cancel(self, user: str, run: str) -> RunState:
        """End a run and everything below it; returns the state it is in afterwards. A second call changes nothing.

        Raises:
            NotFound: there is no such run of this user.
        """
        answer = await self._store.call("run_cancel", user, run, hint_ms=0)
        if answer["r"] == "gone":
            raise NotFound(f"there is no run {run}", field="run")
        await self._bell.ring(rings_of(user, answer))
        return RunState(answer["state"])

    async def cancel_batch(self, user: str, batch: str) -> int:
        """End every open child of a batch; returns how many. Whoever waits for the batch gets what there is.

        Raises:
            NotFound: there is no such batch of this user.
        """
        answer = await self._store.call("batch_cancel", user, batch, hint_ms=0)
        if answer["r"] == "gone":
            raise NotFound(f"there is no batch {batch}", field="batch")
        await self._bell.ring(rings_of(user, answer))
        return int(answer["cancelled"])

    async def wake(self, user: str, run: str, *why: WaitReason) -> bool:
        """End the pause of a run that waits for one of these; False when it does not (any more)."""
        answer = await self._store.call("run_wake", user, run, *map(str, why), hint_ms=self._store.config.soon_ms)
        await self._bell.ring(rings_of(user, answer))
        return bool(answer["r"] == "ok")

    async def get(self, user: str, run: str) -> RunRecord:
        """One run's record.

        Raises:
            NotFound: there is no such run of this user.
        """
        [fields] = await self._store.read(("HGETALL", user_key(user, f"run:{run}")))
        if not fields:
            raise NotFound(f"there is no run {run}", field="run")
        return record_of(user, fields)

    async def fields(self, user: str, run: str) -> Mapping[str, str]:
        """The raw stored record: also what only operators look at (takeovers, rollbacks, holder)."""
        [fields] = await self._store.read(("HGETALL", user_key(user, f"run:{run}")))
        return dict(fields)

    async def steps(self, user: str, run: str) -> list[AnyStep]:
        """All stored steps of a run, oldest first."""
        [texts] = await self._store.read(("LRANGE", user_key(user, f"steps:{run}"), 0, -1))
        return [step_from_json(text) for text in texts]

    async def recent(self, user: str, limit: int = 50) -> list[RunRecord]:
        """The user's newest runs, newest first."""
        [ids] = await self._store.read(("ZREVRANGE", user_key(user, "runs"), 0, limit - 1))
        records = await self._store.read(*(("HGETALL", user_key(user, f"run:{run}")) for run in ids)) if ids else []
        return [record_of(user, fields) for fields in records if fields]

    async def batch(self, user: str, batch: str) -> Batch:
        """A batch with its children in task order.

        Raises:
            NotFound: there is no such batch of this user.
        """
        [fields] = await self._store.read(("HGETALL", user_key(user, f"batch:{batch}")))
        if not fields:
            raise NotFound(f"there is no batch {batch}")
        names = [fields[f"child:{index}"] for index in range(int(fields["size"]))]
        records = await self._store.read(*(("HGETALL", user_key(user, f"run:{name}")) for name in names))
        children = tuple(record_of(user, record) for record in records)
        return Batch(batch, fields["parent"], "joined" in fields, fields.get("road") == "mailbox", children)

    async def save_long(self, user: str, run: str, name: str, text: str) -> str:
        """Keep a whole tool result that was too long for the prompt; returns the pointer it can be read by."""
        key = user_key(user, f"spill:{run}")
        await self._store.read(("HSET", key, name, text), ("EXPIRE", key, self._store.config.keep_s))
        return f"result:{run}/{name}"

    async def read_long(self, user: str, pointer: str) -> str | None:
        """The text behind a pointer of :meth:`save_long`, if it is this user's and still kept."""
        run, _, name = pointer.removeprefix("result:").partition("/")
        [text] = await self._store.read(("HGET", user_key(user, f"spill:{run}"), name))
        return None if text is None else str(text)
