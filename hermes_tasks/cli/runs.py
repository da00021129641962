"""``hermes-tasks runs``: what is at work and what became of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hermes_tasks.cli.errors import told_in_one_line
from hermes_tasks.cli.front_client import KeyFileOption, UrlOption, open_client, with_client
from hermes_tasks.cli.options import ConfigOption, HomeOption, JsonOption
from hermes_tasks.cli.printing import moment, one_line, print_json, print_table
from hermes_tasks.cli.spent import state_words, tokens

runs_app = typer.Typer(help="Runs: turns, children, reviews, fires of jobs.", no_args_is_help=True)
RunArgument = Annotated[str, typer.Argument(metavar="ID", help="The run's id.")]


@runs_app.command("list")
def list_runs(
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="How many of the newest.")] = 20,
    home: HomeOption = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest runs, the newest first.

    Kinds: turn (a message), child (of a turn), review (after a turn), cron (a fire of a job).

    Examples:
      hermes-tasks runs list

      hermes-tasks runs list --limit 100 --json | jq '.[] | select(.state == "failed")'
    """
    with told_in_one_line():
        found = with_client(open_client(home, config, url, key_file), lambda front: front.runs(limit))
    if as_json:
        print_json(found)
        return
    print_table(("run", "kind", "state", "reason", "created", "seconds"), map(_row, found), "no runs yet")


@runs_app.command("show")
def show(
    run: RunArgument,
    home: HomeOption = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one run and its children.

    Ids stand in the first column of hermes-tasks runs list.

    Examples:
      hermes-tasks runs show 0192f3c4-…

      hermes-tasks runs show 0192f3c4-… --json
    """
    with told_in_one_line():
        found = with_client(open_client(home, config, url, key_file), lambda front: front.run(run))
    if as_json:
        print_json(found)
        return
    usage = found["usage"]
    for name, value in (
        ("run", found["run"]),
        ("kind", found["kind"]),
        ("state", state_words(found)),
        ("until", moment(found["waits_until_ms"]) if found["waits_for"] else None),
        ("reason", found["exit_reason"]),
        ("error", one_line(found["error"]) if found["error"] else None),
        ("goal", one_line(found["goal"]) if found["goal"] else None),
        ("session", found["session"]),
        ("parent", found["parent"]),
        ("created", moment(found["created_ms"])),
        ("started", moment(found["started_ms"])),
        ("ended", moment(found["ended_ms"])),
        ("attempts", f"{found['attempts']} without progress, {found['takeovers']} takeovers"),
        ("tokens", tokens(usage)),
        ("below", tokens(usage["below"]) if usage["below"]["calls"] else None),
    ):
        if value is not None:
            print(f"{name:<9}{value}")
    if found["children"]:
        print()
        rows = [(*_row(child), one_line(child["goal"] or "", 60)) for child in found["children"]]
        print_table(("child", "kind", "state", "reason", "created", "seconds", "goal"), rows, "")


@runs_app.command("cancel")
def cancel(
    run: RunArgument,
    home: HomeOption = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a run and everything below it.

    Tells the state it is in: one that had ended before keeps its own. A second call changes nothing.

    Examples:
      hermes-tasks runs cancel 0192f3c4-…
    """
    with told_in_one_line():
        state = with_client(open_client(home, config, url, key_file), lambda front: front.cancel(run))
    if as_json:
        print_json({"run": run, "state": state})
        return
    print(f"run {run} is {state}")


def _row(run: dict[str, Any]) -> tuple[object, ...]:
    seconds = f"{run['duration_s']:.1f}" if run["ended_ms"] else "-"
    return run["run"], run["kind"], state_words(run), run["exit_reason"] or "-", moment(run["created_ms"]), seconds
