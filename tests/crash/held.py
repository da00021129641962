"""A worker that stops at a chosen place of its work and stays there until it is released, or struck.

Run by path: ``python held.py <role> <directory>``. The first part of a user's id names the place at which that user's
runs stop. Files in the directory: ``<user>.held.<pid>.<count>`` = it was reached; ``<user>.open``, or the same with
``.<pid>``, made by the test = it lets go; ``<user>.stopped.<pid>`` = that process learned that another one holds the
run or has ended it: its write was refused, or its renewer told it before.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hermes_tasks.testing.faults import Moment, WatchedStore
from hermes_tasks.wiring.worker import Parts, run_worker

SLOTS = 300
_DONE = ("ok", "claimed")
_TOO_LATE = ("lost", "ended")
_RESULT = '"t":"tool"'


@dataclass(frozen=True, slots=True)
class Place:
    """Where to stop.

    Attributes:
        role: in workers of this role only.
        script: at this script; "" = at any.
        sent: True = the script has done its work and its answer is unseen; False = it is not sent yet; None = at both.
        since: only from this script on, for the same user in the same process.
        says: only when one of the script's arguments holds this text.
        rings: only when the answer asks for a doorbell of this task.
        nth: only at the moment of this number among those that fit; 0 = at each.
        count: how many stop here at once.
    """

    role: str
    script: str
    sent: bool | None
    since: str = ""
    says: str = ""
    rings: str = ""
    nth: int = 0
    count: int = 1

    def fits(self, moment: Moment) -> bool:
        if self.script not in ("", moment.script) or not any(self.says in str(arg) for arg in moment.args):
            return False
        if moment.answer is None:
            return self.sent is not True
        rung = {ring[0] for ring in moment.answer.get("rings") or ()}
        done = not self.script or moment.answer["r"] in _DONE
        return self.sent is not False and done and (not self.rings or self.rings in rung)


PLACES = {
    "unrung": Place("turns", "batch_create", sent=True),
    "rung": Place("delegation", "run_claim", sent=False, count=3),
    "unfinished": Place("delegation", "run_finish", sent=False, count=3),
    "outrun": Place("delegation", "run_finish", sent=False, count=3),
    "first-finished": Place("delegation", "run_finish", sent=True, nth=1),
    "last-finished": Place("delegation", "run_finish", sent=True, rings="turn"),
    "unsuspended": Place("turns", "run_suspend", sent=False),
    "overtaken": Place("turns", "run_suspend", sent=False),
    "suspended": Place("turns", "run_suspend", sent=True),
    "resume-rung": Place("turns", "run_claim", sent=False, since="run_suspend"),
    "resume-claimed": Place("turns", "run_claim", sent=True, since="run_suspend"),
    "uncollected": Place("turns", "run_append", sent=False, says=_RESULT),
    "collected": Place("turns", "run_append", sent=True, says=_RESULT),
    "uncommitted": Place("turns", "run_finish", sent=False),
}


def place_of(user: str) -> Place | None:
    """The user's place; ``turns-7.…`` is the seventh moment, of any script, in a worker of that role."""
    name = user.partition(".")[0]
    role, _, nth = name.rpartition("-")
    return Place(role, "", None, nth=int(nth)) if nth.isdecimal() else PLACES.get(name)


class Turnstile:
    """Lets everybody pass but those whose place this is."""

    def __init__(self, role: str, directory: Path) -> None:
        self._role, self._directory = role, directory
        self._seen: set[tuple[str, str]] = set()
        self._fitting: Counter[str] = Counter()
        self._held: Counter[str] = Counter()

    async def meet(self, moment: Moment) -> None:
        user = moment.user
        place = place_of(user)
        if place is None or place.role != self._role or moment.script == "due":
            return
        if place.fits(moment) and (not place.since or (user, place.since) in self._seen):
            self._fitting[user] += 1
            if place.nth in (0, self._fitting[user]):
                await self._hold(user)
        if moment.answer is not None:
            self._seen.add((user, moment.script))
            if moment.answer["r"] in _TOO_LATE:
                self._mark(user, "stopped")

    async def _hold(self, user: str) -> None:
        if self._released(user):
            return
        self._held[user] += 1
        self._mark(user, "held", f".{self._held[user]}")
        try:
            while not self._released(user):  # noqa: ASYNC110 - by another process
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            self._mark(user, "stopped")
            raise

    def _mark(self, user: str, word: str, suffix: str = "") -> None:
        (self._directory / f"{user}.{word}.{os.getpid()}{suffix}").touch()

    def _released(self, user: str) -> bool:
        names = (f"{user}.open", f"{user}.open.{os.getpid()}")
        return any((self._directory / name).exists() for name in names)


def main(role: str, directory: str) -> None:
    turnstile = Turnstile(role, Path(directory))
    run_worker(role, SLOTS, parts=Parts(make_store=partial(WatchedStore, meet=turnstile.meet)))


if __name__ == "__main__":
    main(*sys.argv[1:])
