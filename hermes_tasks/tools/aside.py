"""Work in a process of its own, for what can take for ever and cannot be stopped inside a thread."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

#: Isolated, and without the packages that are installed.
_ALONE: Final = ("-I", "-S")
#: As the calling process finds its packages; never from the working directory.
_WITH_PACKAGES: Final = ("-P",)


async def answer_of(
    script: Path, question: Mapping[str, Any], limit_s: float, *, body: bytes = b"", packages: bool = False
) -> Mapping[str, Any] | None:
    """What a script answers, or None when it gave no answer in time. Its process is gone when this returns or raises.

    Args:
        script: run by path. Standard input carries ``question`` as one JSON line, then ``body``; standard output is
            to get one JSON object. It should end by itself when we are killed.
        limit_s: until the process is killed.
        packages: the script imports more than the standard library.
    """
    flags: Sequence[str] = _WITH_PACKAGES if packages else _ALONE
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *flags,
        str(script),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} if packages else {},
    )
    try:
        async with asyncio.timeout(limit_s):
            answer, _ = await process.communicate(json.dumps(question).encode() + b"\n" + body)
            found: Mapping[str, Any] = json.loads(answer)
            return found
    except (TimeoutError, ValueError):  # no answer at all: the kernel ended it
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
