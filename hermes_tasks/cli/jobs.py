"""``hermes-tasks jobs``: add and list scheduled jobs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hermes_tasks.cli.errors import told_in_one_line
from hermes_tasks.cli.front_client import KeyFileOption, UrlOption, open_client, with_client
from hermes_tasks.cli.options import ConfigOption, HomeOption, JsonOption
from hermes_tasks.cli.printing import moment, one_line, print_json, print_table

jobs_app = typer.Typer(help="Prompts that run at set times; their answers come to the inbox.", no_args_is_help=True)


@jobs_app.command("add")
def add(  # noqa: PLR0917 - the command line passes by name
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What the job has to do, each time.")],
    every: Annotated[str | None, typer.Option("--every", help="Interval, at least a minute: 90s, 2m, 1h, 1d.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="One moment in the future, as ISO: 2030-01-31T09:00.")] = None,
    name: Annotated[str, typer.Option("--name", help="A short name. Default: the prompt's beginning.")] = "",
    home: HomeOption = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a job, and say how its schedule was understood.

    Give either --every or --at. A time without an offset is in the user's zone (hermes-tasks users set).

    Examples:
      hermes-tasks jobs add --every 2m "Is the build green?"

      hermes-tasks jobs add --at 2030-01-31T09:00 --name digest "What happened in January?"
    """
    with told_in_one_line():
        client = open_client(home, config, url, key_file)
        job = with_client(client, lambda front: front.add_job(prompt, every=every, at=at, name=name))
    if warning := job.get("warning"):
        print(f"warning: {warning}", file=sys.stderr)
    if as_json:
        print_json(job)
        return
    print(f"job {job['job']}  {one_line(job['name'])}")
    print(f"{job['schedule']}; next {', '.join(job['next'])}")


@jobs_app.command("list")
def list_jobs(
    home: HomeOption = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the jobs, the next to run first.

    What they answered is shown by hermes-tasks inbox.

    Examples:
      hermes-tasks jobs list

      hermes-tasks jobs list --json | jq '.[].name'
    """
    with told_in_one_line():
        found = with_client(open_client(home, config, url, key_file), lambda front: front.jobs())
    if as_json:
        print_json(found)
        return
    rows = [(job["job"], one_line(job["name"], 40), job["state"], moment(job["next_ms"])) for job in found]
    print_table(("job", "name", "state", "next"), rows, 'no jobs; add one with: hermes-tasks jobs add --every 1h "…"')
