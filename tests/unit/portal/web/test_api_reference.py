"""Summaries of operations in the API reference."""

from portal.web.api_reference import first_sentence


def test_a_summary_is_the_first_sentence_over_the_ends_of_lines() -> None:
    assert first_sentence("Return the sessions of\na project. At most 100.\n\nMore.") == (
        "Return the sessions of a project."
    )
    assert first_sentence("") == ""
