"""Errors of commands as one line on stderr, and their exit codes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hermes_tasks.contracts.errors import HermesTasksError
from hermes_tasks.contracts.exits import ExitCode, exit_code

__all__ = ["ExitCode", "exit_code", "told_in_one_line"]


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """Turn an error of ours into ``hermes-tasks: <message>`` on stderr and its exit code.

    Raises:
        SystemExit: instead of every ``HermesTasksError``. Other exceptions are bugs and pass with their trace.
    """
    try:
        yield
    except HermesTasksError as error:
        for line in str(error).splitlines():
            print(f"hermes-tasks: {line}", file=sys.stderr)
        raise SystemExit(exit_code(error)) from None
