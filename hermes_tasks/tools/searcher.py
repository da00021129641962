"""Searches a directory. Run by path with ``python -I -S`` by ``search``; imports the standard library only.

A process of its own, because a regular expression can take for ever and nothing can stop it inside a thread: the
kernel ends this process when its time is up. Standard input carries one JSON line ``{root, below, pattern, glob, uid,
seconds, most_hits, most_files, most_bytes}``; standard output gets one JSON line ``{hits, stopped}`` or ``{error}``.
"""

import contextlib
import fnmatch
import json
import os
import re
import resource
import signal
import stat
import sys
import time
import unicodedata  # noqa: F401 - a pattern may need it when the interpreter's files are no longer readable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SHOWN_CHARS = 200
_MEMORY_BYTES = 1024 * 1024 * 1024
_SKIPPED = (".git", ".tmp")


def main() -> None:
    """Search once and print what was found."""
    asked = json.loads(sys.stdin.readline())
    signal.alarm(int(asked["seconds"]) + 2)  # not handled, so it ends the process whatever it is doing
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    os.chdir(asked["root"])  # the user may not be able to pass the directories above
    if asked["uid"] is not None:
        os.setgroups([])
        os.setgid(asked["uid"])
        os.setuid(asked["uid"])
    sys.stdout.write(json.dumps(_found(asked)) + "\n")


def _found(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        pattern = re.compile(asked["pattern"]) if asked["pattern"] else None
    except (re.error, OverflowError, RecursionError) as error:
        return {"error": f"not a regular expression of Python: {error}"}
    glob = re.compile(fnmatch.translate(asked["glob"].removeprefix("**/")))
    deadline = time.monotonic() + asked["seconds"]
    hits: list[str] = []
    looked = 0
    for name in _names(asked["below"]):
        if looked >= asked["most_files"] or len(hits) >= asked["most_hits"] or time.monotonic() > deadline:
            return {"hits": hits, "stopped": looked}
        if not (glob.match(name) or glob.match(Path(name).name)):
            continue
        looked += 1
        if pattern is None:
            hits.append(_shown(name))
        else:
            _search(name, pattern, hits, asked)
    return {"hits": hits, "stopped": None}


def _names(below: str) -> Iterator[str]:
    for folder, folders, files in os.walk(Path(below), followlinks=False):
        folders[:] = sorted(set(folders).difference(_SKIPPED))
        for file in sorted(files):
            yield str(Path(folder, file))


def _search(name: str, pattern: re.Pattern[str], hits: list[str], asked: dict[str, Any]) -> None:
    text = ""
    with contextlib.suppress(OSError):  # gone meanwhile, a link, or not readable for the user
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(file, "rb") as stream:
            info = os.fstat(file)
            if stat.S_ISREG(info.st_mode) and info.st_size <= asked["most_bytes"]:
                data = stream.read()
                text = "" if b"\0" in data[:8192] else data.decode(errors="replace")
    for number, line in enumerate(text.split("\n"), 1):
        if len(hits) < asked["most_hits"] and pattern.search(line):
            hits.append(f"{_shown(name)}:{number}: {line.strip()[:_SHOWN_CHARS]}")


def _shown(name: str) -> str:
    """The name as text: bytes that are none would break whoever stores the answer."""
    return os.fsencode(name).decode(errors="replace")


if __name__ == "__main__":
    main()
