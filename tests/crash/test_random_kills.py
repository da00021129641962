"""Random blows in a row while several users delegate: in the end nothing is missing, doubled or left open."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hermes_tasks.demo.server import ModelServer
from hermes_tasks.testing.server import EmbeddedServer
from tests.crash import plays
from tests.crash.findings import Turn, findings, leftovers
from tests.crash.fleet import Fleet, wait_until
from tests.crash.storm import Storm, plan
from tests.crash.viewer import Operator

pytestmark = [pytest.mark.crash, pytest.mark.timeout(3600)]

USERS = ("ann", "bob", "cleo", "dan")
TURNS_PER_SESSION = 5


class Talker:
    """A user who says the next thing when the last one is answered, and repeats what may not have been heard.

    Attributes:
        user: whose id it is.
        turns: everything that was accepted.
    """

    def __init__(self, user: str, operator: Operator, http: httpx.Client) -> None:
        self.user, self._operator, self._http = user, operator, http
        self._key = {"Authorization": f"Bearer {operator.add_user(user)}"}
        self.turns: list[Turn] = []

    @property
    def answered(self) -> bool:
        return not self.turns or self._operator.record(self.user, self.turns[-1].run).state.terminal

    def talk(self) -> None:
        """Say the next thing, if it is time. When the front does not answer, the same is said again next time."""
        if not self.answered:
            return
        number = len(self.turns)
        name, session = f"{self.user}{number}", f"s{number // TURNS_PER_SESSION}"
        headers = {**self._key, "Idempotency-Key": name}
        try:
            if number % TURNS_PER_SESSION == 0:
                self._http.post("/v1/sessions", json={"session": session}, headers=headers).raise_for_status()
            body = {"text": plays.message(name, 3)}
            heard = self._http.post(f"/v1/sessions/{session}/messages", json=body, headers=headers)
            heard.raise_for_status()
        except httpx.HTTPError:
            return
        self.turns.append(Turn(self.user, session, heard.json()["message"], name))


@pytest.mark.parametrize("blows", [8, pytest.param(100, marks=pytest.mark.soak)])
def test_no_finding_after_random_blows(server: EmbeddedServer, tmp_path: Path, blows: int) -> None:
    seed = int(os.environ.get("CRASH_SEED") or random.SystemRandom().randrange(10**9))
    print(f"seed {seed}: CRASH_SEED={seed} deals the same blows")
    cast = plays.Cast(delay_s=lambda: random.uniform(0, 0.3))
    with (
        ModelServer.threaded(cast.script, tag=plays.tag, keep=1_000_000) as model,
        Fleet(tmp_path, server, model.port) as fleet,
        Operator(fleet.settings) as operator,
        httpx.Client(base_url=f"http://127.0.0.1:{fleet.front_port}", trust_env=False, timeout=1) as http,
    ):
        talkers = [Talker(user, operator, http) for user in USERS]
        storm = Storm(fleet, server, operator, plan(random.Random(seed), blows))

        def blown_over() -> bool:
            storm.tend()
            if sum(not talker.answered for talker in talkers) >= len(talkers) / 2:
                storm.strike()  # on work, not on a fleet that waits for the front to come back
            talkers.append(talkers.pop(0))  # one at a time: a front that is frozen answers nobody
            talkers[0].talk()
            return storm.over

        def quiet() -> bool:
            storm.tend()
            return not any(leftovers(operator, user, reviews=True) for user in USERS)

        wait_until("all blows fall", blown_over, 120 + 20 * blows, pause_s=0.05)
        calm = wait_until("everything ends", quiet, 120, pause_s=0.2)
        turns = [turn for talker in talkers for turn in talker.turns]
        print(f"{len(turns)} turns, {dict(storm.dealt)}; quiet after {calm:.1f} s")
        asked = Counter(call.tag for call in model.calls)
        found = {turn.name: lines for turn in turns if (lines := findings(operator, asked, turn))}
        assert found == {}
        assert storm.fell == []
        wait_until("memory has caught up", lambda: not list(forgotten(operator, talkers)), 60)


def forgotten(operator: Operator, talkers: list[Talker]) -> Iterator[str]:
    """Sessions whose memory is not their turns, each once and in order."""
    for talker in talkers:
        kept, said = defaultdict(list), defaultdict(list)
        for turn in talker.turns:
            said[turn.session].append(plays.message(turn.name, turn.tasks))
        for document in operator.run(operator.base.memory.turns(talker.user)):
            kept[document["session"]].append(document["user"])
        yield from (f"{talker.user} {session}" for session in said if said[session] != kept[session])
