from __future__ import annotations

from hermes_tasks.memory.terms import folded, found_in, terms, weights


def test_case_form_and_small_words_do_not_count() -> None:
    assert terms("The WiFi-Password of \uff30orto, please!") == ("password", "porto", "wifi")
    assert terms("what is it") == ()


def test_scripts_without_spaces_become_pairs() -> None:
    assert set(terms("我喜欢茶 tea")) == {"我喜", "喜欢", "欢茶", "tea"}
    assert terms("茶") == ("茶",)


def test_single_letters_are_noise_but_digits_are_not() -> None:
    assert terms("a x 7") == ("7",)


def test_of_a_long_query_the_longest_words_count() -> None:
    found = terms(" ".join("x" * length for length in range(2, 102)))
    assert len(found) == 40
    assert found[0] == "x" * 101


def test_only_whole_words_are_found() -> None:
    wanted = ("art", "trip_x", "porto", "é", "茶叶")
    assert found_in(folded("Start party PORTO."), wanted) == {"porto"}
    assert found_in(folded("start art"), wanted) == {"art"}
    assert found_in(folded("artful 茶art"), wanted) == {"art"}
    assert found_in(folded("我的茶叶罐"), wanted) == {"茶叶"}


def test_a_text_has_its_own_terms() -> None:
    text = "Meet \uff21nna in Straße 7, 喝绿茶 now"
    assert found_in(folded(text), terms(text)) == frozenset(terms(text))


def test_rare_words_say_more_than_common_ones() -> None:
    says = weights([frozenset({"trip", "porto"}), frozenset({"trip"}), frozenset({"trip"})])
    assert set(says) == {"trip", "porto"}
    assert says["porto"] > says["trip"] > 0


def test_a_word_that_is_everywhere_says_nothing() -> None:
    assert set(weights([frozenset({"bitte", str(number)}) for number in range(12)])) == {str(n) for n in range(12)}
