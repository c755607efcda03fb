"""Validation of text, and quoting of values in messages."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.values.text import check_text, has_hidden, is_word, quoted, shown, unknown_field


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("train", "“train”"),
        ("x" * 100, f"“{'x' * 40}…”"),
        ("a\0b\x1b\u202e\ud800\u200b", "“a�b����”"),
        (None, "“null”"),
        (True, "“true”"),
        (False, "“false”"),
        (7, "“7”"),
        (10**41, "“a very large number”"),
        (-(10**400), "“a very large number”"),
        (float("nan"), "“nan”"),
        ({"a": 1}, "“an object”"),
        ([1], "“a list”"),
        ({1}, "“something else”"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_a_value_is_quoted_so_that_it_can_be_read(value: object, words: str) -> None:
    assert quoted(value) == words


@given(st.text() | st.text(alphabet=st.characters(categories=["Cs", "Cc", "Cf"])))
def test_what_is_quoted_can_be_stored_and_shown(text: str) -> None:
    assert len(shown(text)) <= 41
    assert not {unicodedata.category(character) for character in shown(text)} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    shown(text).encode()


@pytest.mark.parametrize(
    "text", ["a\nb", "a\tb", "\x7f", "\u202e", "\u2028", "\ue000", "a\u200db", "a\u200d", "\u3164", "a\ufe0f"]
)
def test_text_of_one_line_has_only_what_shows(text: str) -> None:
    with pytest.raises(ValueError, match="do not show"):
        check_text(text, max_length=100)


def test_lines_and_tabs_are_allowed_where_there_may_be_many() -> None:
    assert check_text("a\r\n\tb", max_length=10, is_multiline=True) == "a\r\n\tb"
    with pytest.raises(ValueError, match="do not show"):
        check_text("a\x0bb", max_length=10, is_multiline=True)


def test_a_slip_is_told_from_a_field_that_nobody_knows() -> None:
    known = ("name", "project")
    assert unknown_field("nmae", known).endswith("Did you mean “name”?")
    assert unknown_field("x" * 10_000, known).endswith("Known here: name, project.")


# Thai, Hindi with a joined consonant, Bengali with a joiner before the virama, Persian with a non-joiner, Korean, Japanese with a form of an ideograph.
WORDS = (
    "ข้อมูล",
    "हिन्दी",
    "क्\u200dष",
    "র\u200d্যাব",
    "می\u200cخواهم",
    "데이터",
    "葛\U000e0100城",
    "café",
    "a.b-c_1",
)


@pytest.mark.parametrize("word", WORDS)
def test_words_of_every_script_may_be_names(word: str) -> None:
    assert is_word(word)
    assert check_text(word, max_length=64) == word
    assert not has_hidden(word)
    assert shown(word) == word


@pytest.mark.parametrize(
    "text", ["", "\u0301a", "a b", "a/b", "a\u200cb", "a\u034fb", "a\u202eb", "\u200bab", "🚢"], ids=ascii
)
def test_what_is_no_word_is_told(text: str) -> None:
    assert not is_word(text)


@pytest.mark.parametrize("word", WORDS)
def test_names_that_look_alike_are_one(word: str) -> None:
    apart = unicodedata.normalize("NFD", word)
    assert check_text(apart, max_length=64) == unicodedata.normalize("NFC", word)


@pytest.mark.parametrize(
    "text", ["👩\u200d🚀 lab", "❤\ufe0f", "👍🏽", "1\ufe0f\u20e3", "#\ufe0f\u20e3", "ℹ\ufe0f", "〰\ufe0f"]
)
def test_pictures_of_several_characters_are_text(text: str) -> None:
    assert check_text(text, max_length=20) == text
    assert not has_hidden(text)


@pytest.mark.parametrize(
    "text",
    [
        "\u3164",
        "a\u034f",
        "a\ufe00",
        "a\u202eb",
        "train-1\ufe0f",
        "a.\ufe0ftxt",
        "a\u200d\u094d",
        "\u3164\ufe00",
    ],
    ids=ascii,
)
def test_what_nobody_sees_is_hidden_in_a_name(text: str) -> None:
    assert has_hidden(text)
    assert not is_word(text)


def test_characters_of_other_fonts_may_be_in_names_of_files() -> None:
    assert not has_hidden("\uf8ff \U0001fbff")


def test_a_nul_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="NUL"):
        check_text("a\0b", max_length=10)
