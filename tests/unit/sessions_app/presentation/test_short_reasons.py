"""Short texts for the reason of a pending session."""

import pytest

from common.templatetags.berth import unbroken
from common.values.stored_message import StoredMessage
from scheduler.engine import ReasonCode
from sessions_app.presentation.session import _SHORT_REASONS, short_reason

GPUS = {"short": {"gpu": 4000}, "room": {"gpu": 2000}, "group": "lab"}


@pytest.mark.parametrize(
    ("code", "arguments", "words"),
    [
        ("no_capacity", GPUS, "No room: 4 gpu requested, 2 gpu free"),
        ("no_capacity", {"count": 3, "found": 1, "each": {"cpu": 1000}}, "No room: 3 agents needed, 1 free"),
        ("fragmented", {**GPUS, "in_all": {"gpu": 4000}}, "No room: 4 gpu requested, 2 gpu on one agent"),
        ("fragmented", {"count": 2, "each": {"cpu": 1000}, "in_all": {}}, "Free, but on too many agents"),
        (
            "limit_reached",
            {"held": {"cpu": 2000}, "most": {"cpu": 3000}},
            "Limit: 2 cores of 3 cores allocated",
        ),
        ("kept_free", {}, "Backfill reservation ahead"),
        ("start_time", {}, "The whole sentence."),
    ],
)
def test_a_reason_is_said_in_a_few_words(code: str, arguments: dict[str, object], words: str) -> None:
    assert str(short_reason(code, StoredMessage("The whole sentence.", arguments))) == words  # type: ignore[arg-type]


def test_each_reason_of_the_scheduler_has_a_short_form() -> None:
    assert set(_SHORT_REASONS) == set(ReasonCode)


def test_a_number_and_its_unit_stay_on_one_line() -> None:
    assert unbroken("1 core, 512 MiB, 2 gpu") == "1\xa0core, 512\xa0MiB, 2\xa0gpu"
