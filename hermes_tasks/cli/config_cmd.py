"""``hermes-tasks config``: every setting, its value and where it came from."""

from __future__ import annotations

import json
from dataclasses import asdict

from hermes_tasks.cli.errors import told_in_one_line
from hermes_tasks.cli.options import ConfigOption, HomeOption, JsonOption


def config(home: HomeOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print every setting, its value and where it came from (a variable, a file, or the default).

    Secrets are shown as (set) or (not set).

    Examples:
      hermes-tasks config

      hermes-tasks config --json | jq '.[] | select(.source != "default")'
    """
    from hermes_tasks.settings import load, sources

    with told_in_one_line():
        found = sources(load(home, config))
    if as_json:
        print(json.dumps([asdict(source) for source in found], indent=2, ensure_ascii=False))
        return
    keys = max(len(source.key) for source in found)
    values = min(40, max(len(source.value) for source in found))
    for source in found:
        print(f"{source.key:<{keys}}  {source.value:<{values}}  {source.source}")
