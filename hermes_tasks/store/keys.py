"""Every key of the store. One table: name, owner, bound, expiry; ``docs/keys.md`` is checked against it.

All keys of one user carry the hash tag ``{u:<user>}``, so each script stays inside one slot. Scripts get the
user's record as ``KEYS[1]`` and derive the other keys of that user from its prefix; the suffixes below are the same
words that the Lua files use.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

#: Global shards of "which user must be looked at, and when". Fixed: changing it needs ``reindex``.
SHARDS: Final = 8
#: Version of the record layout. A binary refuses a store that says more.
LAYOUT: Final = 1

DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class KeyRule:
    """One row of the key table."""

    suffix: str
    kind: str
    what: str
    bound: str
    expiry: str


#: Keys below ``ht:{u:<user>}:``
USER_KEYS: Final = (
    KeyRule(
        "user",
        "hash",
        "the user's record: state, zone, language, model, time high-water mark",
        "1 per user",
        "none; tombstone 30 days",
    ),
    KeyRule("due", "zset", "what of this user must be looked at, and when (ms)", "live records of the user", "none"),
    KeyRule("runs", "zset", "run ids by creation time (ms)", "30 days of runs", "trimmed at each creation"),
    KeyRule("run:<id>", "hash", "a run's record", "1 per run", "7 days after its end"),
    KeyRule(
        "steps:<id>", "list", "a run's steps, one JSON each", "2 per iteration plus its calls", "7 days after its end"
    ),
    KeyRule("kids:<id>", "set", "children of a run", "delegation.max_tasks per call", "7 days after its end"),
    KeyRule(
        "batch:<id>",
        "hash",
        "a batch: parent, call, size, joined",
        "1 per delegate_task call",
        "7 days after the parent's end",
    ),
    KeyRule("batches:<id>", "set", "batch ids of a run", "1 per delegate_task call", "7 days after its end"),
    KeyRule(
        "away:<session>",
        "set",
        "batches whose results will come as a turn of their own",
        "open background batches of the session",
        "none; empty when idle",
    ),
    KeyRule(
        "spend:<day>",
        "hash",
        "what the user's model calls of a day used, by kind and model, and what is set aside for runs",
        "5 fields per kind and model, 1 per run in flight",
        "90 days",
    ),
    KeyRule(
        "spill:<id>",
        "hash",
        "whole tool results of a run that were too long for its prompt",
        "1 field per long result",
        "7 days",
    ),
    KeyRule("win:<class>", "set", "members in flight: run ids, or cursors for class drain", "windows.<class>", "none"),
    KeyRule(
        "winp:<id>", "set", "children of one parent in flight", "windows.children_per_parent", "none; empty when idle"
    ),
    KeyRule(
        "back:<class>",
        "list",
        "parents that wait for the window, taking turns",
        "1 per waiting parent",
        "none; empty when idle",
    ),
    KeyRule("back:<class>:<parent>", "list", "what waits, per parent", "what the user queued", "none; empty when idle"),
    KeyRule(
        "first:<class>",
        "list",
        "resumed runs; they go before the backlog",
        "suspended runs of the user",
        "none; empty when idle",
    ),
    KeyRule("sessions", "zset", "session ids by last activity (ms)", "sessions of the user", "none"),
    KeyRule("sess:<id>", "hash", "a session: generation, turn count, open turn", "1 per session", "none"),
    KeyRule("hist:<id>", "list", "a session's turns, one JSON each", "turns of the session", "none"),
    KeyRule(
        "inbox:<id>",
        "list",
        "message ids waiting for their turn",
        "front.max_waiting_messages",
        "none; empty when idle",
    ),
    KeyRule(
        "msg:<id>",
        "hash",
        "messages not yet turned into history, by id",
        "front.max_waiting_messages",
        "none; empty when idle",
    ),
    KeyRule("prompt:<id>", "hash", "pinned system prompt by generation", "1 per generation", "none"),
    KeyRule("ev:<id>", "stream", "events a client can read", "about 5,000", "1 h after the last turn"),
    KeyRule(
        "idem:<id>:<key>",
        "string",
        "answer to a request with that idempotency key, or the mark of an entry without a turn",
        "1 per key",
        "24 h",
    ),
    KeyRule("chan:<id>", "hash", "a channel: last position", "1 per session", "none"),
    KeyRule(
        "chanturns:<id>",
        "hash",
        "turn number to turn id, to tell a repeat from a conflict",
        "newest 1,000 turns",
        "none",
    ),
    KeyRule(
        "log:<id>",
        "stream",
        "channel entries not yet applied by every cursor; id = position-0",
        "backlog of the session",
        "deleted when applied",
    ),
    KeyRule(
        "cur:<id>|<consumer>",
        "hash",
        "a cursor: position, lease, bell mark, attempts",
        "1 per session and consumer",
        "none",
    ),
    KeyRule("mem:turns", "list", "built-in memory: what was said, one JSON per turn", "memory.turns_kept", "none"),
    KeyRule("doc:<name>", "hash", "a memory document: version, entries", "2 per user", "none"),
    KeyRule("owed", "hash", "reviews owed: session to turn", "sessions of the user", "none; empty when idle"),
    KeyRule("jobs", "set", "job ids", "cron.jobs_per_user", "none"),
    KeyRule("job:<id>", "hash", "a job: schedule, prompt, next planned time, version", "cron.jobs_per_user", "none"),
    KeyRule("jobsdue", "zset", "job ids by next planned time (ms)", "cron.jobs_per_user", "none"),
    KeyRule("ledger:<id>", "list", "what became of each slot of a job, one JSON each", "100", "none"),
    KeyRule("out:<id>", "hash", "a delivery owed to the user", "1 per finished fire", "7 days after delivery"),
    KeyRule("mail", "list", "the user's inbox, one JSON each", "1,000", "none"),
)

#: Keys that belong to no user.
GLOBAL_KEYS: Final = (
    KeyRule("ht:users", "set", "user registry", "users", "none"),
    KeyRule("ht:keys", "hash", "SHA-256 of a bearer key to user id", "keys", "none"),
    KeyRule("ht:shard:<n>", "zset", "user to next look (ms), a hint", "users with work", "none"),
    KeyRule("ht:jobshard:<n>", "zset", "user to next job fire (ms), a hint", "users with jobs", "none"),
    KeyRule("ht:sweep:<name>:<n>", "string", "who sweeps a shard now; only limits load", "2 per shard", "under 1 s"),
    KeyRule("ht:slot:<entry>:<slot>", "string", "a system entry's fired slot", "1 per slot", "2 periods, at least 1 h"),
    KeyRule("ht:beat", "string", "when a scheduler last ticked (ms)", "1", "1 day"),
    KeyRule("ht:workers", "zset", "queue|process to when it last swept (ms)", "workers of the last day", "none"),
    KeyRule("ht:meta", "hash", "layout version and the home this store belongs to", "1", "none"),
    KeyRule(
        "ht:{p/<lane>/<what>/<limit>/1/minute}",
        "string",
        "calls or tokens of this minute at a model endpoint, as the rate limiter counts them",
        "2 per model endpoint",
        "2 min",
    ),
    KeyRule("ht:{p/<lane>/<what>/<limit>/1/minute}/-1", "string", "those of the minute before", "as above", "1 min"),
    KeyRule("ht:wake:<front>", "stream", "wakes the event reader of one front process", "1 entry", "1 h"),
)

#: Keys of the providers: below ``ht:{p:<endpoint>}:``, where an endpoint is the digest of an address and a key.
PROVIDER_KEYS: Final = (
    KeyRule(
        "held:<share>",
        "zset",
        "runs (share|user|run) with a permit, by the end of its lease (ms); a share is turn or rest",
        "max_concurrent, else calls after a pause",
        "2 days after the last",
    ),
    KeyRule(
        "line:<share>:<model>",
        "zset",
        "runs that wait to ask a model, by round",
        "paused runs",
        "2 days after the last",
    ),
    KeyRule(
        "granted",
        "zset",
        "runs that got a permit while they waited, by when they are told again (ms)",
        "as held",
        "2 days after the last",
    ),
    KeyRule("rounds", "hash", "last round of a share and user in line", "users in line", "2 days after the last"),
    KeyRule("state", "hash", "the round that was served last, arrivals", "1", "2 days after the last"),
    KeyRule("models", "set", "models that are paused or waited for", "models of the endpoint", "2 days after the last"),
    KeyRule("model:<model>", "hash", "a model's pause, and the pace after it", "1 per model", "2 days after the last"),
)


def user_key(user: str, suffix: str = "user") -> str:
    """The full name of one of the user's keys."""
    return f"ht:{{u:{user}}}:{suffix}"


def provider_key(endpoint: str) -> str:
    """The key from which the scripts on a provider endpoint's slot derive all others of it."""
    return f"ht:{{p:{endpoint}}}:state"


def shard_of(user: str) -> int:
    """Which global shard holds the user's hint; the same on every machine."""
    return zlib.crc32(user.encode()) % SHARDS


def shard_key(user: str) -> str:
    """The shard that says when this user must be looked at next."""
    return f"ht:shard:{shard_of(user)}"


def job_shard_key(user: str) -> str:
    """The shard that says when a job of this user fires next."""
    return f"ht:jobshard:{shard_of(user)}"
