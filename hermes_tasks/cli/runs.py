"""``hermes-tasks runs``: what is at work and what became of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hermes_tasks.cli.errors import told_in_one_line
from hermes_tasks.cli.front_client import KeyFileOption, UrlOption, open_client, with_client
from hermes_tasks.cli.options import ConfigOption, HomeOption, JsonOption
from hermes_tasks.cli.printing import clean, moment, one_line, print_json, print_table
from hermes_tasks.cli.run_tail import follow_run
from hermes_tasks.cli.spent import state_words, tokens
from hermes_tasks.contracts.errors import InvalidRequest

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
    target: Annotated[str, typer.Argument(metavar="ID", help="The run's id; or a batch's or session's, see below.")],
    batch: Annotated[bool, typer.Option("--batch", help="ID is a batch: end all children of that delegation.")] = False,
    session: Annotated[bool, typer.Option("--session", help="ID is a session: end all that works for it.")] = False,
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

      hermes-tasks runs cancel --batch 27de5707…

      hermes-tasks runs cancel --session work
    """
    with told_in_one_line():
        if batch and session:
            raise InvalidRequest("give --batch or --session, not both")
        client = open_client(home, config, url, key_file)
        if batch or session:
            ended = with_client(client, lambda front: (front.cancel_batch if batch else front.cancel_session)(target))
            if as_json:
                print_json({"batch" if batch else "session": target, "cancelled": ended})
            else:
                print(f"{'batch' if batch else 'session'} {target}: {ended} ended")
            return
        state = with_client(client, lambda front: front.cancel(target))
    if as_json:
        print_json({"run": target, "state": state})
        return
    print(f"run {target} is {state}")


@runs_app.command("explain")
def explain(
    run: RunArgument,
    home: HomeOption = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why a run is where it is, and since when.

    It may wait for its window, its model's provider, the daily budget, a worker, the end of a pause, or its children.

    Examples:
      hermes-tasks runs explain 0192f3c4-…
    """
    with told_in_one_line():
        found = with_client(open_client(home, config, url, key_file), lambda front: front.explain(run))
    if as_json:
        print_json(found)
        return
    print(f"run {found['run']} is {found['state']}")
    for reason in found["reasons"]:
        until = f", until {moment(reason['until_ms'])}" if reason["until_ms"] else ""
        since = f" (since {moment(reason['since_ms'])}{until})" if reason["since_ms"] else ""
        print(f"  {reason['what']}: {clean(reason['detail'])}{since}")


@runs_app.command("tail")
def tail(
    run: RunArgument,
    home: HomeOption = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow what a run and its children say and do, until the run has ended.

    Long texts are cut and secrets are masked. With --json: one object per line.

    Examples:
      hermes-tasks runs tail 0192f3c4-…
    """
    with told_in_one_line():
        with_client(open_client(home, config, url, key_file), lambda front: follow_run(front, run, as_json=as_json))


def _row(run: dict[str, Any]) -> tuple[object, ...]:
    seconds = f"{run['duration_s']:.1f}" if run["ended_ms"] else "-"
    return run["run"], run["kind"], state_words(run), run["exit_reason"] or "-", moment(run["created_ms"]), seconds
