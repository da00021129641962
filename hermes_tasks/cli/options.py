"""Options that every command has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Square brackets would be taken for markup of the help's renderer and vanish.
HomeOption = Annotated[
    Path | None, typer.Option("--home", metavar="DIR", help="Home directory. Default: ~/.hermes-tasks.")
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings file. Default: config.toml in the home.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
