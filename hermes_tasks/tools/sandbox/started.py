"""How a process of ours is started that imports next to nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

#: Behind everything of Python's own, so that nothing here can stand before it.
_START: Final = "import sys; sys.path.append(sys.argv.pop(1)); from {module} import main; main()"
_ROOT: Final = Path(__file__).parents[3]


def bare_python(module: str) -> tuple[str, ...]:
    """The command that runs ``main`` of that module, without site-packages and deaf to the environment."""
    return (sys.executable, "-I", "-S", "-c", _START.format(module=module), str(_ROOT))
