"""``hermes-tasks usage``, and how every command says what a run used and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hermes_tasks.cli.errors import told_in_one_line
from hermes_tasks.cli.front_client import KeyFileOption, UrlOption, open_client, with_client
from hermes_tasks.cli.options import ConfigOption, HomeOption, JsonOption
from hermes_tasks.cli.printing import print_json, print_table


def usage(
    day: Annotated[
        str | None, typer.Option("--day", metavar="YYYY-MM-DD", help="A day of the user's zone. Default: today.")
    ] = None,
    home: HomeOption = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a day used: tokens and money, by kind of run and model, and the budget of today.

    The price of a model is set in the settings (models.NAME.input_price, output_price).

    Examples:
      hermes-tasks usage

      hermes-tasks usage --day 2030-01-31 --json | jq .total.cost
    """
    with told_in_one_line():
        found = with_client(open_client(home, config, url, key_file), lambda front: front.usage(day))
    if as_json:
        print_json(found)
        return
    rows = [(row["kind"], row["model"] or "-", *_numbers(row)) for row in found["rows"]]
    if rows:
        rows.append(("total", "", *_numbers(found["total"])))
    print_table(("kind", "model", "calls", "in", "out", "cost"), rows, f"no model was asked on {found['day']}")
    if budget := found["budget"]:
        print(
            f"budget: {budget['used']:,} of {budget['limit']:,} tokens used, {budget['reserved']:,} set aside; "
            f"new ones at {budget['resets']}"
        )


def money(usage: Mapping[str, Any]) -> str:
    """What it cost, in the currency of the settings' prices."""
    cost = usage.get("cost")
    if cost is None:
        return "price unknown"
    return f"{cost:.2f}" if cost >= 1 or cost == 0 else f"{cost:.6f}"


def tokens(usage: Mapping[str, Any]) -> str:
    """Tokens, calls and money in one line."""
    counted = f"{usage['input_tokens']} in, {usage['output_tokens']} out, {usage['calls']} calls"
    return f"{counted}, {money(usage)}" if usage["calls"] else counted


def state_words(run: Mapping[str, Any]) -> str:
    """The state of a run, and for what it waits: ``held: budget``, ``waiting: rate``."""
    waits = run.get("waits_for")
    if not waits:
        return str(run["state"])
    return f"held: {waits}" if waits == "budget" else f"{run['state']}: {waits}"


def _numbers(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["calls"], row["input_tokens"], row["output_tokens"], money(row)
