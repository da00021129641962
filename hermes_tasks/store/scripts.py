"""Loads the Lua scripts: each file of ``lua/`` behind the library it needs, known by its SHA-1."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

#: In this order, in front of every script on a user's slot.
_LIBRARY: Final = ("lib", "windows", "channel", "runs", "ends")
#: In front of the scripts on a provider endpoint's slot, whose names begin with ``permit_``.
_PERMITS: Final = "permits"
#: On the global shards: they touch no user's keys, so the library is not for them.
_BARE: Final = frozenset({"hint_put", "hint_move"})
#: Scripts that only make new work: refused when the store is at its memory limit. All others still run then,
#: since finishing, advancing, renewing and erasing is what frees memory.
_NEW_WORK: Final = frozenset({"run_create", "message_post", "job_add", "channel_append", "session_open", "user_put"})


@dataclass(frozen=True, slots=True)
class Script:
    """One script as the server gets it."""

    name: str
    text: str
    sha: str


@cache
def load_scripts() -> Mapping[str, Script]:
    """All scripts by name; read once per process."""
    folder = resources.files("hermes_tasks.store").joinpath("lua")
    sources = {
        entry.name.removesuffix(".lua"): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".lua")
    }
    library = "\n".join(sources[name] for name in _LIBRARY)
    scripts = {}
    for name, body in sources.items():
        if name in (*_LIBRARY, _PERMITS):
            continue
        flags = "" if name in _NEW_WORK else " flags=allow-oom"
        before = sources[_PERMITS] if name.startswith("permit_") else "" if name in _BARE else library
        text = "\n".join(part for part in (f"#!lua{flags}", before, body) if part)
        scripts[name] = Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
    return scripts
