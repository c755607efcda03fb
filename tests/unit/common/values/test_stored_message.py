"""Stored messages are rendered in the language of their reader."""

from types import SimpleNamespace

import pytest

from common import i18n
from common.ports import translator
from common.values.stored_message import LONGEST_QUOTE, StoredMessage, one_line

WAITS = "Waits for {short}: “{group}” has none."


@pytest.fixture
def backwards():
    """A language in which the words stand in another order."""
    known = {WAITS: "“{group}” has none, so it waits for {short}."}
    language = SimpleNamespace(
        gettext=lambda text: known.get(text, text), ngettext=lambda one, many, number: many
    )
    with translator.replaced(language):
        yield


def test_a_sentence_is_put_together_in_the_language_of_the_reader(backwards):
    kept = StoredMessage(WAITS, {"short": {"cpu": 2000, "cuda": 1000}, "group": "lab"})

    assert str(kept) == "“lab” has none, so it waits for 2 cores, 1 × NVIDIA GPU."
    assert i18n.ngettext("{count} file", "{count} files", 1) == "{count} files"


def test_without_translations_sentences_are_english():
    with translator.replaced(None):
        kept = StoredMessage(WAITS, {"short": {"cpu": 1000}, "group": "lab"})

        assert str(kept) == "Waits for 1 core: “lab” has none."
        assert [i18n.ngettext("one", "many", number) for number in (0, 1, 2)] == ["many", "one", "many"]


def test_what_an_engine_said_is_quoted_as_it_is():
    assert (
        str(StoredMessage("It failed.", quote=one_line("no {room}\n left"))) == "It failed. (no {room} left)"
    )
    assert len(one_line("x" * 9999)) == LONGEST_QUOTE


def test_text_of_people_is_no_pattern():
    assert str(StoredMessage("On {agent}.", {"agent": "{agent.__class__}"})) == "On {agent.__class__}."
    assert str(StoredMessage("Written before {this}.")) == "Written before {this}."


def test_empty_message_is_false_and_stores_nothing():
    assert (bool(StoredMessage()), str(StoredMessage()), StoredMessage().to_json()) == (False, "", {})
