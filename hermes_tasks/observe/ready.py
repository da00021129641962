"""How a process tells the one that started it that it does its work now: running is not yet ready."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: Names the directory in which each ready process leaves a file named like its pid.
READY_VARIABLE: Final = "HT_READY_DIR"


def tell_ready() -> None:
    """Say that this process does its work now. Does nothing when nobody waits for it, or when it was said before."""
    directory = os.environ.get(READY_VARIABLE)
    if directory:
        (Path(directory) / str(os.getpid())).touch()


def told_ready(directory: Path, pid: int) -> bool:
    """True when the process of that pid said so."""
    return (directory / str(pid)).exists()
