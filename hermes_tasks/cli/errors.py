"""Exit codes, and errors as one line on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from hermes_tasks.contracts.errors import Conflict, HermesTasksError, InvalidRequest, StoreUnavailable


class ExitCode(IntEnum):
    """What the command line returns."""

    OK = 0
    FAILED = 1
    USAGE = 2  # bad input: an option, a setting, an id
    STORE_UNREACHABLE = 3
    CONFLICT = 4  # already running on this home, a port already taken, an id already used
    INTERRUPTED = 130


def exit_code(error: HermesTasksError) -> ExitCode:
    """The exit code of an error, by its class."""
    match error:
        case Conflict():
            return ExitCode.CONFLICT
        case InvalidRequest():
            return ExitCode.USAGE
        case StoreUnavailable():
            return ExitCode.STORE_UNREACHABLE
        case _:
            return ExitCode.FAILED


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
