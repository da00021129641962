from __future__ import annotations

import pytest

from hermes_tasks.tools.passages import Changed, Passage, replaced

TEXT = "def one():\n    return 1\n\ndef two():\n    return 2\n"


def test_the_only_place_is_replaced_and_named() -> None:
    assert replaced(TEXT, Passage("return 2", "return 3")) == Changed(TEXT.replace("2", "3"), 5)


def test_several_places_are_named_by_line() -> None:
    said = replaced(TEXT, Passage("return", "yield"))
    assert said == "the old text occurs 2 times (lines 2, 5); give more of what stands around it"


def test_overlapping_places_are_ambiguous() -> None:
    assert "2 times" in str(replaced("aaa", Passage("aa", "b")))


def test_a_missing_passage_names_lines_like_it() -> None:
    said = replaced(TEXT, Passage("def  two() :\n    pass", "x"))
    assert said == "the old text was not found. Lines like its first line: 4: def two():; 1: def one():"
    assert "read the file again" in str(replaced(TEXT, Passage("class Zebra", "x")))


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("def two():\n    pass", "It begins like line 4, but line 5 is '    return 2', not '    pass'"),
        ("def two():\n\treturn 2", "It begins like line 4, but line 5 is '    return 2', not '\\treturn 2'"),
        ("\n\n\ndef two():", "It begins like line 4, but line 2 is '    return 1', not ''"),
        ("\treturn 1", "It begins like line 2, but line 2 is '    return 1', not '\\treturn 1'"),
        ("    return 2\n\n", "It begins like line 5, but there are not as many lines around that"),
        ("\n\ndef one():", "It begins like line 1, but there are not as many lines around that"),
    ],
)
def test_where_it_begins_alike_the_first_difference_is_shown(old: str, said: str) -> None:
    assert replaced(TEXT, Passage(old, "x")) == f"the old text was not found. {said}"


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "b", "x\ny", "a\r\nx\r\ny\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "b\r\n", "x\n", "a\r\nx\nc\r\n"),
        ("a\nb\nc\r\nd\r\n", "c\nd", "x\ny", "a\nb\nx\r\ny\r\n"),
        ("a\r\nb\r\nc\nd\n", "c\nd", "x\ny", "a\r\nb\r\nx\ny\n"),
        ("a\nb\nc\r\n", "b", "x\ny", "a\nx\ny\nc\r\n"),
    ],
)
def test_lines_end_after_a_patch_as_they_did_before(text: str, old: str, new: str, after: str) -> None:
    changed = replaced(text, Passage(old, new))
    assert isinstance(changed, Changed)
    assert changed.text == after


def test_mixed_line_ends_are_named() -> None:
    said = replaced("a\r\nb\nc\n", Passage("a\nb\nc", "x"))
    assert said == "the old text was not found. It begins like line 1, and differs from it in how lines end"


def test_nothing_to_do_is_said() -> None:
    assert replaced(TEXT, Passage("def one", "def one")) == "the old and the new text are the same"
