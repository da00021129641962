"""Exit codes: the same words for the command line and for every process it starts."""

from __future__ import annotations

from enum import IntEnum

from hermes_tasks.contracts.errors import Conflict, HermesTasksError, InvalidRequest, StoreUnavailable


class ExitCode(IntEnum):
    """What a command or a process returns."""

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
