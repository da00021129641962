"""SIGKILL of the front in the middle of a turn: a worker finishes it, and it is answered once."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import pytest

from hermes_tasks.contracts.kinds import RunState
from hermes_tasks.demo.server import ModelServer
from hermes_tasks.testing.server import EmbeddedServer
from tests.crash.fleet import Fleet, wait_until
from tests.crash.scripts import delegating, tag
from tests.crash.viewer import Operator

pytestmark = pytest.mark.crash


def healthy(fleet: Fleet) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{fleet.front_port}/healthz", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_turn_survives_the_kill_of_its_front(server: EmbeddedServer, tmp_path: Path, rounds: int) -> None:
    with (
        ModelServer.threaded(delegating(1.5), tag=tag, keep=100_000) as model,
        Fleet(tmp_path, server, model.port) as fleet,
        Operator(fleet.settings) as operator,
    ):
        key = operator.add_user("ann")
        fleet.start("turns", 2)
        wait_until("two turns workers serve", lambda: operator.serving("turns") == 2, 60)
        for round_ in range(rounds):
            [front] = fleet.start("front")
            wait_until("the front is healthy", lambda: healthy(fleet), 60)
            base, headers = f"http://127.0.0.1:{fleet.front_port}", {"Authorization": f"Bearer {key}"}
            with httpx.Client(base_url=base, headers=headers, trust_env=False) as http:
                session = f"front{round_}"
                http.post("/v1/sessions", json={"session": session}).raise_for_status()
                answer = http.post(f"/v1/sessions/{session}/messages", json={"text": "what is slow?"})
                assert answer.status_code == 202, answer.text
                turn = answer.json()["message"]
            wait_until("the front asks the model", lambda: model.open > 0, 30)
            holder = operator.fields("ann", turn)["worker"]
            assert holder.endswith(f":{front.pid}"), "the turn did not begin in the front"
            killed_at = operator.now_ms()
            front.send_signal(signal.SIGKILL)
            front.wait()
            wait_until("the turn ends", lambda: operator.record("ann", turn).state.terminal, 60)  # noqa: B023
            fields = operator.fields("ann", turn)
            assert operator.record("ann", turn).state is RunState.COMPLETED
            assert not fields["worker"].endswith(f":{front.pid}")
            assert int(fields["claimed"]) - killed_at <= 5_000
            [entry] = operator.history("ann", session)
            assert entry["text"] == "slow answer"
