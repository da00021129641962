"""The documents say what the code says."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

import hermes_tasks
from hermes_tasks.contracts.kinds import Queue, RunKind, RunState
from hermes_tasks.contracts.memory import EntryKind
from tests.arch import key_table
from tests.arch.tree import ROOT, texts

PAGES = {name: text for name, text in texts().items() if name.endswith(".md")}
WORDS = (
    *("user", "session", "generation", "turn", "run", "kind", "step", "batch", "channel", "entry", "lease", "fence"),
    *("window", "doorbell", "recovery", "job", "fire", "outbox", "delivery", "dead letter", "policy"),
)


def test_the_key_table_is_current() -> None:
    assert key_table.DOCUMENT.read_text() == key_table.document(), "run `make docs`"


@pytest.mark.parametrize("word", WORDS)
def test_the_glossary_explains_every_word(word: str) -> None:
    assert f"**{word}**" in PAGES["docs/glossary.md"]


@pytest.mark.parametrize("words", [RunKind, RunState, EntryKind, Queue])
def test_the_glossary_names_every_value(words: type[RunKind | RunState | EntryKind | Queue]) -> None:
    assert [word for word in words if f"`{word}`" not in PAGES["docs/glossary.md"]] == []


def test_every_link_leads_somewhere() -> None:
    dead = [
        f"{name}: {target}"
        for name, text in PAGES.items()
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
        if "://" not in target and not (ROOT / name).parent.joinpath(target).exists()
    ]
    assert dead == []


def test_every_test_that_is_named_exists() -> None:
    missing = []
    for name, text in PAGES.items():
        for file, function in re.findall(r"`(tests/[\w/.-]+\.py)(?:::(\w+))?`", text):
            path = ROOT / file
            if not path.is_file() or (function and f"def {function}(" not in path.read_text()):
                missing.append(f"{name}: {file}::{function}")
    assert missing == []


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for text in PAGES.values() for target in re.findall(r"make ([a-z]+)`", text)}
    assert named - targets == set()


def test_the_law_in_the_architecture_is_the_law() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    law = project["tool"]["importlinter"]["contracts"][0]["layers"]
    assert "\n".join(law).replace("(", "").replace(")", "") in PAGES["docs/architecture.md"]


def test_the_python_in_the_readme_is_python() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGES["README.md"], re.DOTALL)
    assert blocks
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hermes_tasks"):
                scope: dict[str, object] = {}
                exec(ast.unparse(node), scope)
                assert all(alias.name in scope for alias in node.names)


def test_the_changelog_knows_this_version() -> None:
    headings = re.findall(r"^## \[([^]]+)\]", PAGES["CHANGELOG.md"], re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert hermes_tasks.__version__ in headings or headings == ["Unreleased"]
