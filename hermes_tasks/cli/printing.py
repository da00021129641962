"""How commands print: aligned columns, JSON, times of this machine's zone, and no control characters of others."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from hermes_tasks.contracts.clock import from_ms


def print_json(value: Any) -> None:
    """``value`` as JSON that people can read as well."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """Rows in columns, or the line ``empty`` when there are none."""
    lines = [[one_line(str(cell)) for cell in row] for row in rows]
    if not lines:
        print(empty)
        return
    widths = [max(len(line[i]) for line in [list(head), *lines]) for i in range(len(head))]
    for line in [list(head), *lines]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def moment(value_ms: int | None) -> str:
    """A stored time in this machine's zone, to the second; ``-`` for none."""
    return f"{from_ms(value_ms).astimezone():%Y-%m-%d %H:%M:%S}" if value_ms else "-"


def clean(text: str) -> str:
    """``text`` without characters that steer a terminal; line breaks and tabs stay."""
    return "".join(c if c in "\n\t" or unicodedata.category(c) != "Cc" else "�" for c in text)


def one_line(text: str, most: int = 200) -> str:
    """``text`` in one line of at most ``most`` characters."""
    line = clean(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"
