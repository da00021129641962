"""Sizes: a file or function that outgrew them lacks a concept, or a reason beside it."""

from __future__ import annotations

import ast
from statistics import median

from tests.arch.tree import python, texts

FILE_LINES = 500
MEDIAN_LINES = 150
FUNCTION_LINES = 60
REASON = "# long:"


def long_functions(source: str) -> list[str]:
    """Functions over the budget that do not say why, on the ``def`` line or the line above it."""
    lines = source.splitlines()
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        size = (node.end_lineno or node.lineno) - node.lineno + 1
        beside = lines[max(0, node.lineno - 2) : node.lineno]
        if size > FUNCTION_LINES and not any(len(line.partition(REASON)[2].split()) > 1 for line in beside):
            found.append(f"{node.name}: {size} lines")
    return found


def test_no_file_is_too_long() -> None:
    sizes = {name: text.count("\n") for name, text in texts().items() if name.endswith((".py", ".lua"))}
    assert {name: lines for name, lines in sizes.items() if lines > FILE_LINES} == {}


def test_the_median_file_fits_two_screens() -> None:
    sizes = [text.count("\n") for text in python("hermes_tasks").values()]
    assert median(sizes) <= MEDIAN_LINES


def test_no_function_is_too_long_without_a_reason() -> None:
    found = {name: long_functions(text) for name, text in python("hermes_tasks", "workers", "beat").items()}
    assert {name: functions for name, functions in found.items() if functions} == {}


def test_a_long_function_needs_a_reason_in_words() -> None:
    body = "    pass\n" * FUNCTION_LINES
    assert long_functions(f"def f():\n{body}") == [f"f: {FUNCTION_LINES + 1} lines"]
    assert long_functions(f"def f():  # long:\n{body}") != []
    assert long_functions(f"def f():  # long: one table of states\n{body}") == []
    assert long_functions(f"# long: one table of states\nasync def f():\n{body}") == []
