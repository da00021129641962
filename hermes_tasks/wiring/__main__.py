"""``python -m hermes_tasks.wiring front|flower``: the processes that have no launcher file of their own."""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> int:
    """Run the named process until it is told to stop."""
    # Imported here so that each process loads only what it runs.
    if arguments == ["front"]:
        from hermes_tasks.wiring.front import run_front

        run_front()
        return 0
    if arguments == ["flower"]:
        from hermes_tasks.wiring.flower import run_flower

        run_flower()
        return 0
    sys.stderr.write("usage: python -m hermes_tasks.wiring front|flower\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
