"""Nothing of one machine, of a registry, or of a secret lies in the tree."""

from __future__ import annotations

import re

from tests.arch.tree import texts

# Written in pieces, so that this file is clean as well.
MACHINE_PATHS = re.compile(
    "|".join(["/wo" + "rk/", "/ro" + "ot/", "/ho" + r"me/\w+/", "/Us" + r"ers/\w+/", "/opt/wh" + "eels"])
)
REGISTRIES = re.compile(
    "|".join(["py" + r"pi\.org", "python" + "hosted", "npm" + r"js\.org", "--(extra-)?index" + "-url[ =]"])
)
SECRETS = re.compile(r"sk-[A-Za-z0-9]{20}|BEGIN [A-Z ]*PRIVATE KEY|AKIA[0-9A-Z]{16}")
UNFINISHED = re.compile("TO" + "DO|FIX" + "ME|NotImpl" + "ementedError")


def hits(pattern: re.Pattern[str], *, product_only: bool = False) -> list[str]:
    """Lines that match; with ``product_only`` not those of tests, whose doubles and false secrets are data."""
    return [
        f"{name}:{number}: {line.strip()[:80]}"
        for name, text in texts().items()
        if not (product_only and name.startswith("tests/"))
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_path_of_a_machine() -> None:
    assert hits(MACHINE_PATHS) == []


def test_no_address_of_a_registry() -> None:
    assert hits(REGISTRIES) == []


def test_no_secret() -> None:
    assert hits(SECRETS, product_only=True) == []


def test_nothing_unfinished() -> None:
    assert hits(UNFINISHED, product_only=True) == []
