"""The command line ``hermes-tasks``: one function per command, each in its own file."""

from __future__ import annotations

import typer

from hermes_tasks.cli.chat import chat
from hermes_tasks.cli.config_cmd import config
from hermes_tasks.cli.demo import demo
from hermes_tasks.cli.inbox import inbox
from hermes_tasks.cli.jobs import jobs_app
from hermes_tasks.cli.runs import runs_app
from hermes_tasks.cli.services import flower, front
from hermes_tasks.cli.up import up
from hermes_tasks.cli.users import users_app

app = typer.Typer(
    name="hermes-tasks",
    help="The background work of a personal agent, for thousands of users, on Celery and Redis.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(up)
app.command()(config)
app.command()(demo)
app.command()(chat)
app.command()(inbox)
app.add_typer(jobs_app, name="jobs")
app.add_typer(runs_app, name="runs")
app.add_typer(users_app, name="users")
app.command()(front)
app.command()(flower)


@app.callback()
def _root() -> None:
    """Exit codes: 0 done, 1 failed, 2 bad input, 3 store unreachable, 4 already running or taken."""


def main() -> None:
    """The entry point of the installed command."""
    app()


if __name__ == "__main__":
    main()
