from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_tasks.memory.documents import (
    DELIMITER,
    Action,
    Change,
    Operation,
    Refusal,
    apply,
    apply_all,
    preview,
    size,
    usage,
)

LIMIT = 2200
THREE_LINES = "Home: flat 4\nWork: desk 9\nGym: tuesdays"
ANIMALS = ("cat", "cat food order: monthly", THREE_LINES)


def as_is(text: str) -> str:
    return text


def add(content: str) -> Operation:
    return Operation(Action.ADD, content)


def put(old_text: str, content: str) -> Operation:
    return Operation(Action.REPLACE, content, old_text)


def remove(old_text: str) -> Operation:
    return Operation(Action.REMOVE, old_text=old_text)


def change(entries: tuple[str, ...], operation: Operation, limit: int = LIMIT) -> Change:
    done = apply(entries, operation, limit, as_is)
    assert isinstance(done, Change), done
    return done


def refusal(entries: tuple[str, ...], operation: Operation, limit: int = LIMIT) -> Refusal:
    done = apply(entries, operation, limit, as_is)
    assert isinstance(done, Refusal), done
    return done


@pytest.mark.parametrize("unit", ["x", "é", "e\u0301", "汉", "👩\u200d🚀"])
def test_the_limit_is_in_code_points_and_may_be_reached(unit: str) -> None:
    whole = (unit * LIMIT)[:LIMIT]
    assert change((), add(whole)).entries == (whole,)
    assert usage((whole,), LIMIT) == "100% — 2200/2200 chars"
    assert refusal((), add(whole + "y")).needed == 2201


def test_the_delimiter_counts() -> None:
    assert refusal(("a" * 1000,), add("b" * 1198)).needed == 2201
    assert size(change(("a" * 1000,), add("b" * 1197)).entries) == 2200


def test_a_refused_size_says_how_much_is_too_much() -> None:
    error = refusal(("a" * 2190,), add("b" * 60)).error
    assert "2253 of 2200" in error
    assert "53 too many" in error
    assert "now 2190" in error


def test_a_document_over_a_lowered_limit_can_only_get_smaller() -> None:
    entries = ("a" * 60, "b" * 60)
    assert change(entries, put("a" * 60, "c" * 59), 100).entries == ("c" * 59, "b" * 60)
    assert refusal(entries, put("a" * 60, "c" * 60), 100).needed == 123
    assert change(entries, remove("b" * 60), 100).entries == ("a" * 60,)


def test_an_entry_that_equals_the_text_comes_before_one_that_contains_it() -> None:
    assert change(ANIMALS, remove("cat")).entries == ANIMALS[1:]
    assert change(ANIMALS, put(" cat ", "dog")).entries == ("dog", *ANIMALS[1:])


def test_replacing_a_part_keeps_the_rest_of_the_entry() -> None:
    made = change(ANIMALS, put("Work: desk 9", "Work: desk 12"))
    assert made.entries == (*ANIMALS[:2], "Home: flat 4\nWork: desk 12\nGym: tuesdays")
    assert "rest of the entry is kept" in made.message


def test_another_dash_is_not_found_and_says_so() -> None:
    error = refusal(ANIMALS, put("Home \u2013 flat 4", "Home: flat 5")).error
    assert "no entry contains 'Home \u2013 flat 4'" in error


def test_a_text_in_several_entries_is_refused_with_candidates() -> None:
    refused = refusal((*ANIMALS, "o" * 200), remove("o"))
    assert refused.matches == ("cat food order: monthly", preview(THREE_LINES), "o" * 79 + "…")
    assert all(len(match) <= 80 for match in refused.matches)


def test_a_part_that_stands_twice_in_its_entry_is_refused() -> None:
    assert "more than once" in refusal(("red, then red again",), put("red", "blue")).error
    assert "more than once" in refusal(("baaab",), put("aa", "c")).error
    assert change(("red, then red again",), remove("red")).entries == ()


def test_of_identical_entries_of_an_older_version_the_first_is_changed() -> None:
    assert change(("same text", "x", "same text"), put("same", "new")).entries == ("new text", "x", "same text")


@pytest.mark.parametrize("again", ["Prefers tea", "Prefers tea ", "\n Prefers tea", "prefers TEA", "Prefers  tea"])
def test_a_repeated_add_succeeds_and_changes_nothing(again: str) -> None:
    made = change(("Prefers tea",), add(again))
    assert made.entries == ("Prefers tea",)
    assert "already there" in made.message


def test_a_repeat_succeeds_even_in_a_full_document() -> None:
    assert change(("a" * LIMIT,), add("a" * LIMIT)).entries == ("a" * LIMIT,)


def test_the_letter_case_of_an_entry_can_be_corrected() -> None:
    assert change(("lives in porto",), put("porto", "Porto")).entries == ("lives in Porto",)


def test_replacing_by_what_another_entry_says_leaves_one_of_the_two() -> None:
    assert change(("a", "b", "c"), put("a", "b")).entries == ("b", "c")


def test_replacing_by_the_same_changes_nothing() -> None:
    assert "nothing was written" in change(("a b",), put("b", "b")).message


@pytest.mark.parametrize("content", [f"a{DELIMITER}b", "a\n§", f"{DELIMITER}b\n§\nc"])
def test_a_line_that_separates_entries_is_refused(content: str) -> None:
    assert "only §" in refusal((), add(content)).error
    assert "only §" in refusal(("x",), put("x", content)).error


def test_a_separator_cannot_be_put_together_by_a_replacement() -> None:
    assert "only §" in refusal(("a\nX\nb",), put("X", "§")).error


@pytest.mark.parametrize("content", ["§", "see § 5", "§\nb", "a §\nb"])
def test_the_sign_itself_is_data(content: str) -> None:
    assert change(("a",), add(content)).entries == ("a", content)


@pytest.mark.parametrize("blank", ["", "  ", "\n\t"])
def test_what_is_missing_is_named(blank: str) -> None:
    assert "needs content" in refusal(ANIMALS, add(blank)).error
    assert "needs content" in refusal(ANIMALS, put("cat", blank)).error
    assert "replace needs old_text" in refusal(ANIMALS, put(blank, "x")).error
    assert "remove needs old_text" in refusal(ANIMALS, remove(blank)).error


def test_what_an_entry_would_become_is_vetted_whole() -> None:
    def vet(text: str) -> str | Refusal:
        return Refusal("no") if text == "AB" else text.replace("secret", "***")

    assert apply(("A-",), put("-", "B"), LIMIT, vet) == Refusal("no")
    made = apply((), add("my secret"), LIMIT, vet)
    assert isinstance(made, Change)
    assert made.entries == ("my ***",)


def test_only_the_final_size_of_a_batch_counts() -> None:
    full = ("a" * 1000, "b" * 1197)
    assert isinstance(apply(full, add("c" * 500), LIMIT, as_is), Refusal)
    for operations in ([remove("a" * 1000), add("c" * 1000)], [add("c" * 1000), remove("a" * 1000)]):
        made = apply_all(full, operations, LIMIT, as_is)
        assert isinstance(made, Change)
        assert made.entries == ("b" * 1197, "c" * 1000)


def test_a_bad_operation_stops_the_batch_and_is_named_by_position() -> None:
    refused = apply_all(ANIMALS, [remove("cat"), remove("o"), add("x")], LIMIT, as_is)
    assert isinstance(refused, Refusal)
    assert refused.error.startswith("operation 2: ")
    assert len(refused.matches) == 2


def test_a_batch_skips_what_is_already_there_and_sees_its_own_changes() -> None:
    made = apply_all(ANIMALS, [add("cat"), add("dog"), add("dog"), put("dog", "wolf")], LIMIT, as_is)
    assert isinstance(made, Change)
    assert made.entries == (*ANIMALS, "wolf")


def test_percent_is_rounded_down_and_never_over_a_hundred() -> None:
    assert usage(("a" * 1374,), 1375) == "99% — 1374/1375 chars"
    assert usage(("a" * 3000,), 1375) == "100% — 3000/1375 chars"
    assert usage((), 1375) == "0% — 0/1375 chars"


TEXTS = st.text(alphabet="ab§\n X", max_size=8)
OPERATIONS = st.builds(Operation, st.sampled_from(Action), TEXTS, TEXTS)
SMALL = 24


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, ...]:
    entries: tuple[str, ...] = ()
    for content in draw(st.lists(TEXTS, max_size=6)):
        made = apply(entries, add(content), SMALL, as_is)
        entries = made.entries if isinstance(made, Change) else entries
    return entries


def sound(entries: tuple[str, ...]) -> bool:
    trimmed = all(entry and entry == entry.strip() for entry in entries)
    readable = tuple(DELIMITER.join(entries).split(DELIMITER)) == entries or not entries
    return trimmed and readable and len(set(entries)) == len(entries) and size(entries) <= SMALL


@settings(deadline=None)  # a busy machine is not a fault
@given(entries=documents(), operations=st.lists(OPERATIONS, max_size=5))
def test_a_document_stays_sound_and_within_its_limit(entries: tuple[str, ...], operations: list[Operation]) -> None:
    for operation in operations:
        made = apply(entries, operation, SMALL, as_is)
        entries = made.entries if isinstance(made, Change) else entries
        assert sound(entries)


@settings(deadline=None)  # a busy machine is not a fault
@given(entries=documents(), operations=st.lists(OPERATIONS, min_size=1, max_size=5))
def test_a_batch_is_its_operations_in_order_or_nothing(entries: tuple[str, ...], operations: list[Operation]) -> None:
    now, bad = entries, 0
    for number, operation in enumerate(operations, 1):
        step = apply(now, operation, 10_000, as_is)
        if isinstance(step, Refusal):
            bad = number
            break
        now = step.entries
    made = apply_all(entries, operations, SMALL, as_is)
    if bad:
        assert isinstance(made, Refusal)
        assert made.error.startswith(f"operation {bad}: ")
    elif size(now) > SMALL and size(now) >= size(entries):
        assert isinstance(made, Refusal)
        assert made.needed == size(now)
    else:
        assert isinstance(made, Change)
        assert made.entries == now
        assert sound(now)


@settings(deadline=None)  # a busy machine is not a fault
@given(entries=documents(), operation=OPERATIONS)
def test_replace_and_remove_touch_one_entry_only(entries: tuple[str, ...], operation: Operation) -> None:
    made = apply(entries, operation, SMALL, as_is)
    if isinstance(made, Refusal):
        return
    if operation.action is Action.ADD:
        assert made.entries[: len(entries)] == entries
        assert len(made.entries) <= len(entries) + 1
        return
    gone = [entry for entry in entries if entry not in made.entries]
    assert len(gone) <= 1
    assert all(operation.old_text.strip() in entry for entry in gone)
    kept = [entry for entry in entries if entry not in gone]
    assert [entry for entry in made.entries if entry in kept] == kept
    assert len(made.entries) <= len(entries)
