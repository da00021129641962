"""Writes docs/keys.md from the one table of keys: ``python -m tests.arch.key_table`` (``make docs``)."""

from __future__ import annotations

from hermes_tasks.store.keys import GLOBAL_KEYS, LAYOUT, PROVIDER_KEYS, SHARDS, USER_KEYS, KeyRule
from tests.arch.tree import ROOT

DOCUMENT = ROOT / "docs" / "keys.md"

HEAD = f"""# Keys of the store

Generated from `hermes_tasks/store/keys.py` by `make docs`; a test compares them. Layout version {LAYOUT}.

Every key has an owner, a bound and an expiry. Times in keys and scores are milliseconds since 1970-01-01 UTC.
Users' data never appears in a key name; ids do.
"""

USERS = """
## Keys of one user

All begin with `ht:{u:<user>}:`. The braces are the hash tag: they keep a user's keys in one slot, so that a script may
change several of them at once and the store can be a cluster.
"""

PROVIDERS = """
## Keys of one provider endpoint

All begin with `ht:{p:<endpoint>}:`. An endpoint is the digest of an address and the key used there; a model is the
digest of the provider's name for it. Everything here is about calls that are on or wanted now: lost, it costs a pause.
"""

GLOBALS = f"""
## Keys of nobody

Hints and registries. The shards ({SHARDS} of each) can be rebuilt at any time from the user registry and the users' own
keys (`hermes-tasks reindex`): a lost hint costs time, never work.
"""


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return text.replace("<", "\\<")


def table(rules: tuple[KeyRule, ...]) -> str:
    """One Markdown table."""
    head = ("Key", "Type", "Holds", "Bound", "Expiry")
    rows = [head, ("---",) * len(head)]
    rows += [(f"`{rule.suffix}`", rule.kind, *map(plain, (rule.what, rule.bound, rule.expiry))) for rule in rules]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


def document() -> str:
    """The whole page."""
    return f"{HEAD}{USERS}\n{table(USER_KEYS)}{PROVIDERS}\n{table(PROVIDER_KEYS)}{GLOBALS}\n{table(GLOBAL_KEYS)}"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
