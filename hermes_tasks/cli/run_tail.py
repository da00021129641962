"""``hermes-tasks runs tail``: the steps of a run and of its children, as they are stored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hermes_tasks.cli.printing import clean
from hermes_tasks.contracts.kinds import RunState

if TYPE_CHECKING:
    from hermes_tasks.client import Client

_PAUSE_S: Final = 0.5


async def follow_run(front: Client, run: str, *, as_json: bool) -> None:
    """Print every line of the run and its children, and each change of state, until the run has ended.

    Raises:
        NotFound: there is no such run.
    """
    seen: dict[str, int] = {}
    states: dict[str, str] = {}
    while True:
        record = await front.run(run)
        for one in (record, *record["children"]):
            name = run if one["run"] == run else f"child {one['index']} {one['run']}"
            ended = RunState(one["state"]).terminal
            state = {"who": "state", "text": one["state"]}
            new = states.get(one["run"]) != one["state"]
            states[one["run"]] = one["state"]
            if new and not ended:
                _print(one["run"], name, state, as_json=as_json)
            if one["steps"] > seen.get(one["run"], 0):
                found = await front.transcript(one["run"], seen.get(one["run"], 0))
                seen[one["run"]] = found["next"]
                for line in found["lines"]:
                    _print(one["run"], name, line, as_json=as_json)
            if new and ended:
                _print(one["run"], name, state, as_json=as_json)
        if RunState(record["state"]).terminal:
            return
        await asyncio.sleep(_PAUSE_S)


def _print(run: str, name: str, line: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"run": run, **line}, ensure_ascii=False), flush=True)
        return
    tool = f" {line['name']}" if line.get("name") else ""
    status = f" ({line['status']})" if line.get("status") not in (None, "", "ok") else ""
    text = clean(line["text"]).replace("\n", "\n    ")
    print(f"{name} | {line['who']}{tool}{status}: {text}", flush=True)
