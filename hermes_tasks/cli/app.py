"""The command line ``hermes-tasks``: one function per command, each in its own file."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from hermes_tasks.cli.chat import chat
from hermes_tasks.cli.config_cmd import config
from hermes_tasks.cli.demo import demo
from hermes_tasks.cli.errors import told_in_one_line
from hermes_tasks.cli.health import health
from hermes_tasks.cli.inbox import inbox
from hermes_tasks.cli.jobs import jobs_app
from hermes_tasks.cli.runs import runs_app
from hermes_tasks.cli.services import flower, front
from hermes_tasks.cli.spent import usage
from hermes_tasks.cli.up import up
from hermes_tasks.cli.users import users_app
from hermes_tasks.contracts.errors import InvalidRequest

app = typer.Typer(
    name="hermes-tasks",
    help=(
        "The background work of a personal agent, for thousands of users, on Celery and Redis.\n\n"
        "Begin with hermes-tasks demo, or hermes-tasks up and hermes-tasks chat in another terminal.\n\n"
        "Exit codes: 0 done, 1 failed, 2 bad input, 3 store unreachable, 4 already running or taken, 130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(up)
app.command()(config)
app.command()(health)
app.command()(demo)
app.command()(chat)
app.command()(inbox)
app.command()(usage)
app.add_typer(jobs_app, name="jobs")
app.add_typer(runs_app, name="runs")
app.add_typer(users_app, name="users")
app.command()(front)
app.command()(flower)


def main() -> None:
    """The entry point of the installed command."""
    with told_in_one_line():
        _check_text(sys.argv[1:])
        try:
            code = app(standalone_mode=False)
        except typer.TyperException as error:
            if not (text := error.format_message()):
                raise SystemExit(error.exit_code) from None  # no command was given: the help is printed already
            context = getattr(error, "ctx", None)
            path = context.command_path if context is not None else "hermes-tasks"
            raise InvalidRequest(f"{text.rstrip('.')}; see: {path} --help") from None
    raise SystemExit(code)


def _check_text(arguments: Sequence[str]) -> None:
    """Arguments are bytes to the system; what is no text cannot be sent, stored or printed.

    Raises:
        InvalidRequest: one is not UTF-8.
    """
    for number, argument in enumerate(arguments, 1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise InvalidRequest(f"argument {number} is not UTF-8 text; write it in UTF-8") from None


if __name__ == "__main__":
    main()
