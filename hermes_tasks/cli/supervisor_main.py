"""The supervisor process: PyPI ``supervisor``, tied to the command that started it.

``python -m hermes_tasks.cli.supervisor_main <configuration> <descriptor of the home's lock>``
"""

from __future__ import annotations

import os
import sys
from typing import Final

from hermes_tasks.observe.parent import PARENT_VARIABLE, die_with_parent

#: The supervisor closes every inherited descriptor from 5 on; the lock has to live as long as it does.
_KEPT: Final = 4
#: Longer than all its children together may take to stop.
_GRACE_S: Final = 15.0


def main() -> None:
    """Run until told to stop; SIGTERM when the parent dies."""
    die_with_parent(_GRACE_S)
    configuration, lock = sys.argv[1], int(sys.argv[2])
    if lock != _KEPT:
        os.dup2(lock, _KEPT, inheritable=False)
        os.close(lock)
    # Read by every child, so that one that starts after our death notices.
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    from supervisor import supervisord

    supervisord.main(["--nodaemon", "--configuration", configuration])


if __name__ == "__main__":
    main()
