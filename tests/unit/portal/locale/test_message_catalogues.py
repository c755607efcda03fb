"""Every message has a translation in every language, with the same placeholders."""

import pytest

from tests.messages import LANGUAGES, SOURCES, faults, sentences


@pytest.mark.parametrize("domain", SOURCES)
def test_no_language_lacks_a_sentence_or_keeps_a_stale_one(domain: str) -> None:
    source = sentences(domain)

    assert len(source) > 0
    found = {language: faults(language, domain, source) for language in LANGUAGES}
    assert found == {language: [] for language in LANGUAGES}, "Run python -m tests.messages, then translate."
