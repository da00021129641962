from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_tasks.tools.output import Output


def shown(pieces: list[bytes], most_bytes: int) -> str:
    output = Output(most_bytes)
    for piece in pieces:
        output.add(piece)
    return output.text()


def test_short_output_is_whole() -> None:
    assert shown([b"one\n", b"two\n"], 100) == "one\ntwo"
    assert shown([], 100) == "(no output)"


def test_long_output_is_cut_between_lines_and_says_how_much() -> None:
    text = shown([b"%d\n" % n for n in range(1000)], 100)
    lines = text.splitlines()
    note = next(line for line in lines if "left out" in line)
    whole = sum(len(b"%d\n" % n) for n in range(1000))
    kept = [line for line in lines if line.isdigit()]
    assert kept[0] == "0"
    assert kept[-1] == "999"
    assert all(str(int(line)) == line for line in kept)
    assert abs(int(note.split()[1]) + sum(len(line) + 1 for line in kept) - whole) <= 1


def test_no_half_of_a_line_is_left_at_the_cut() -> None:
    secret = b"API_TOKEN=abcdefghijklmnopqrstuvwxyz\n"
    for most in range(200, 400):
        lines = shown([secret] * 50, most).splitlines()
        assert {line for line in lines if "left out" not in line} == {secret.decode().strip()}


@given(st.lists(st.binary(max_size=50), max_size=20), st.integers(10, 200))
def test_the_cut_of_the_pieces_makes_no_difference(pieces: list[bytes], most_bytes: int) -> None:
    assert shown(pieces, most_bytes) == shown([b"".join(pieces)], most_bytes)
