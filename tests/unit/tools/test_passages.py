from __future__ import annotations

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


def test_crlf_files_are_patched_by_what_a_reader_sees() -> None:
    assert replaced("a\r\nb\r\nc\r\n", Passage("a\nb", "x\ny")) == Changed("x\r\ny\r\nc\r\n", 1)


def test_nothing_to_do_is_said() -> None:
    assert replaced(TEXT, Passage("def one", "def one")) == "the old and the new text are the same"
