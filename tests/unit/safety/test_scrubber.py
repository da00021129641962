from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_tasks.safety.scrubber import CLOSE_TAG, OPEN_TAG, StreamingContextScrubber, fenced, scrub

SECRET = "SECRET-RECALL-71"
BLOCK = f"{OPEN_TAG}\n{SECRET}\n{CLOSE_TAG}"
PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                OPEN_TAG,
                CLOSE_TAG,
                OPEN_TAG.upper(),
                "<Memory-Context>",
                "< memory-context >",
                "< /  memory-context>",
                "\n",
                "\r",
                "\r\n",
                " ",
                "\t",
                "<",
                "</",
                "<mem",
                "memory-context",
                ">",
                "x",
                "\u0130",
                "<\u0130",
                SECRET,
            ]
        ),
        st.text(max_size=5),
    ),
    max_size=20,
).map("".join)


def stream(chunks: list[str]) -> str:
    scrubber = StreamingContextScrubber()
    return "".join([scrubber.feed(chunk) for chunk in chunks]) + scrubber.flush()


@given(text=PIECES, cuts=st.lists(st.integers(0, 400), max_size=30))
def test_the_output_does_not_depend_on_the_cuts(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    chunks = [text[a:b] for a, b in pairwise(places)]
    assert stream(chunks) == stream(list(text)) == scrub(text)


@given(before=st.text(max_size=20), inside=PIECES, after=st.text(alphabet="abc \n", max_size=20))
def test_nothing_of_a_fenced_text_is_shown(before: str, inside: str, after: str) -> None:
    before = before.replace("<", "(") + "\n"
    assert scrub(f"{before}{fenced(inside)}{after}") == before + after


@given(text=st.text().filter(lambda text: "memory" not in text.lower()))
def test_other_text_comes_out_unchanged(text: str) -> None:
    assert stream(list(text)) == text


def test_the_peers_acceptance_case() -> None:
    scrubber = StreamingContextScrubber()
    assert scrubber.feed(OPEN_TAG) == ""
    assert scrubber.feed(f"\nsecret\n{CLOSE_TAG}\nhi") == "\nhi"
    scrubber.reset()
    assert scrubber.feed("Use the <memory-context> tag") == "Use the <memory-context> tag"
    scrubber.reset()
    assert scrubber.feed("hello <mem") == "hello "
    assert scrubber.flush() == "<mem"
    scrubber.reset()
    assert scrubber.feed(f"{OPEN_TAG}\nsecret") + scrubber.flush() == ""
    scrubber.reset()
    assert scrubber.feed("next turn") == "next turn"


def test_a_split_block_disappears_and_its_surroundings_stay() -> None:
    scrubber = StreamingContextScrubber()
    chunks = ["before\n", "<mem", f"ory-context>\n{SECRET}\n</memory-", "context>", "\n\nafter", " it"]
    assert [scrubber.feed(chunk) for chunk in chunks] == ["before\n", "", "", "", "\n\nafter", " it"]
    assert scrubber.flush() == ""


@pytest.mark.parametrize(
    "text",
    [
        "The fence is called <memory-context> and is stripped. Bye.",
        "```html\n</memory-context>\n```",
        "2 < 3 and <memo",
        OPEN_TAG,
        f"a {OPEN_TAG}\nb",
        "<memory-context >x\n",
        "<memory-contexts>\n",
    ],
)
def test_a_mere_mention_is_left_alone(text: str) -> None:
    assert scrub(text) == text


def test_a_block_never_closed_stays_hidden_and_what_was_before_is_shown() -> None:
    scrubber = StreamingContextScrubber()
    assert scrubber.feed(f"Hello.\n{BLOCK[:-3]}") == "Hello.\n"
    assert scrubber.flush() == ""
    assert scrubber.feed("more") == "more"


@pytest.mark.parametrize(
    "block",
    [
        f"<MEMORY-Context>\n{SECRET}\n</Memory-Context>",
        f"  \t{OPEN_TAG}\r\n{SECRET}{CLOSE_TAG}".lstrip(),
        f"< memory-context >\n{SECRET}\n< / memory-context >",
        f"{OPEN_TAG}\r{SECRET}\r{CLOSE_TAG}",
        f"{BLOCK}{BLOCK}",
        f"{BLOCK} {BLOCK}".replace(" ", ""),
    ],
)
def test_every_spelling_of_a_block_is_hidden(block: str) -> None:
    assert scrub(f"a\n{block}\nb") == "a\n\nb"


def test_a_character_that_grows_when_folded_shifts_nothing() -> None:
    assert scrub(f"\u0130\u0130\u0130\n{BLOCK}\u0130 end") == "\u0130\u0130\u0130\n\u0130 end"


def test_flush_keeps_the_line_start_and_reset_restores_it() -> None:
    scrubber = StreamingContextScrubber()
    assert scrubber.feed("text") + scrubber.flush() == "text"
    assert scrubber.feed(f"{OPEN_TAG}\nx") == f"{OPEN_TAG}\nx"
    scrubber.reset()
    assert scrubber.feed(f"{OPEN_TAG}\nx") == ""


def test_harmless_text_is_not_held_back() -> None:
    scrubber = StreamingContextScrubber()
    assert scrubber.feed("if a < b: print('<p>')") == "if a < b: print('<p>')"
