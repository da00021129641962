"""``hermes-tasks inbox``: what was delivered outside a conversation."""

from __future__ import annotations

from typing import Annotated

import typer

from hermes_tasks.cli.errors import told_in_one_line
from hermes_tasks.cli.front_client import KeyFileOption, UrlOption, open_client, with_client
from hermes_tasks.cli.options import ConfigOption, HomeOption, JsonOption
from hermes_tasks.cli.printing import clean, moment, one_line, print_json


def inbox(
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="How many of the newest.")] = 20,
    home: HomeOption = None,
    config: ConfigOption = None,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the answers of jobs, the newest last.

    A job that failed is shown with the reason.

    Examples:
      hermes-tasks inbox

      hermes-tasks inbox --limit 1
    """
    with told_in_one_line():
        found = with_client(open_client(home, config, url, key_file), lambda front: front.inbox(limit))
    if as_json:
        print_json(found)
        return
    if not found:
        print("nothing yet")
    for mail in found:
        print(f"{moment(mail['at_ms'])}  {one_line(mail['name'] or mail['id'])}  {mail['status']}")
        for line in clean(mail["text"] or mail["error"] or "").splitlines():
            print(f"    {line}".rstrip())
