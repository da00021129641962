"""Every command explains itself: what it does, examples as one types them, and where its options come from."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from hermes_tasks.cli.app import app
from hermes_tasks.cli.errors import ExitCode

COMMANDS = [(command.name or command.callback.__name__,) for command in app.registered_commands] + [
    (group.name, command.name)
    for group in app.registered_groups
    for command in group.typer_instance.registered_commands
]


def shown(*arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "160"}, prog_name="hermes-tasks")
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_a_command(path: tuple[str, ...]) -> None:
    text = shown(*path)
    examples = re.findall(rf"^ +(?:\S+ )*hermes-tasks {' '.join(path)}\b", text.partition("Examples:")[2], re.MULTILINE)
    assert examples, "it shows how it is typed"
    assert all(line.startswith("   ") for line in examples), "examples stand out"
    assert "`" not in text, "no markup of another tool"
    if "--home" in text:
        assert "Default: ~/.hermes-tasks." in text
        assert "Default: config.toml in the home." in text


def test_the_help_of_all_names_the_exit_codes() -> None:
    text = shown()
    assert [code for code in ExitCode if not re.search(rf"\b{code.value} [a-z]", text)] == []
    assert {path[0] for path in COMMANDS} <= set(re.findall(r"[a-z]+", text))
