"""Every notification code has a text that its arguments fill."""

import pytest

from portal.notifications.catalogue import SENTENCES, Code, code_of_end
from sessions_app.core.states import Reason, Status

OF_THE_ACCOUNT = {Code.PASSWORDS_TRIED}  # nothing else that has a name


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_sentence(code: Code) -> None:
    sentence = SENTENCES[code]
    arguments = {
        "exit_code": 3,
        "image": "berth/python",
        "date": "2026-11-22",
        "minutes": 10,
        "day": "2026-11-30",
        "left": "1.00",
        "amount": "9.00",
        "count": 100,
        "failed": 5,
        "because": "It is slow.",
        "by": "ada@berth.example",
        "used": "4 GiB",
        "percent": 80,
    }
    filled = sentence.text.format(name="train", **arguments)
    assert ("train" in filled) is (code not in OF_THE_ACCOUNT)
    assert "{" not in filled
    assert sentence.more


def test_what_the_owner_asked_for_is_no_news() -> None:
    assert code_of_end(Status.TERMINATED, Reason.USER_REQUESTED) is None
    assert code_of_end(Status.CANCELLED, Reason.USER_REQUESTED) is None


def test_known_ends_are_told_in_their_own_words() -> None:
    assert code_of_end(Status.ERROR, Reason.OUT_OF_MEMORY) is Code.OUT_OF_MEMORY
    assert code_of_end(Status.TERMINATED, Reason.COMMAND_FINISHED) is Code.COMMAND_FINISHED


def test_other_failures_are_told_as_such() -> None:
    assert code_of_end(Status.ERROR, Reason.ENGINE_REFUSED) is Code.NOT_STARTED
    assert code_of_end(Status.ERROR, "of_a_newer_berth") is Code.NOT_STARTED
    assert code_of_end(Status.TERMINATED, "of_a_newer_berth") is None
