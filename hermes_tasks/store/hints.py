"""Hints: the global shards that say which user must be looked at, and when. A spare one costs a look, a lost one work.

Whoever may give a user something to be looked at puts a hint before its script, so that a crash between the two loses
nothing, and once more after it, so that a sweeper that looked just before cannot remove it. The commands below are for
``Store.read``, except ``put_in``, which travels with a script in ``Store.call``.
"""

from __future__ import annotations

from typing import Any

from hermes_tasks.store.scripts import load_scripts


def put_in(shard: str, user: str, in_ms: int) -> tuple[Any, ...]:
    """Look at the user this many ms from now at the latest, by the server's clock. The script must be loaded."""
    return ("EVALSHA", load_scripts()["hint_put"].sha, 1, shard, user, in_ms, 1)


def put_at(shard: str, user: str, at_ms: float) -> tuple[Any, ...]:
    """Look at the user at that moment at the latest."""
    return ("EVAL", load_scripts()["hint_put"].text, 1, shard, user, at_ms, 0)


def move(shard: str, user: str, was: float, next_ms: int) -> tuple[Any, ...]:
    """After a look: look again then (0 = not again), unless the hint is not the one that was read any more."""
    return ("EVAL", load_scripts()["hint_move"].text, 1, shard, user, repr(was), next_ms)
