"""What pages do by themselves is told from what people do."""

import random

from sessions_app.gateway.activity.polling_detection import (
    LEARNING_S,
    MOST_KINDS,
    MOST_PATHS,
    SETTLING_S,
    Attention,
    Conversation,
    Rhythm,
)


def test_a_beat_is_known_from_its_third_stroke_on() -> None:
    rhythm = Rhythm()
    assert [rhythm.is_out_of_beat("poll", 10.0 * turn) for turn in range(6)] == [True, True, *[False] * 4]


def test_a_beat_that_wavers_or_slows_down_is_one() -> None:
    rhythm, chance = Rhythm(), random.Random(7)
    at, heard = 0.0, []
    for turn in range(200):
        at += (30 if turn < 100 else 60) + chance.uniform(-2, 2)
        heard.append(rhythm.is_out_of_beat("alive", at))
    assert sum(heard) <= 4


def test_typing_is_no_beat() -> None:
    rhythm, at, seen = Rhythm(), 0.0, 0
    for pause in (0.2, 0.1, 0.3, 12, 0.2, 0.15, 45, 0.1):
        at += pause
        seen += rhythm.is_out_of_beat(13, at)
    assert seen >= 7


def test_only_so_many_kinds_are_kept_in_mind() -> None:
    rhythm = Rhythm()
    for kind in range(MOST_KINDS + 1):
        rhythm.is_out_of_beat(kind, 0.0)
    rhythm.is_out_of_beat(0, 10.0)
    assert rhythm.is_out_of_beat(0, 20.0)  # forgotten in between: it begins anew


def test_what_a_page_reads_by_itself_is_no_news_and_what_it_never_read_is() -> None:
    attention = Attention(0.0)
    assert not attention.is_new_reading("/api/kernels", 1.0)
    later = LEARNING_S + 1
    assert not attention.is_new_reading("/api/kernels", later)
    assert attention.is_new_reading("/files/report.csv", later)
    assert not attention.is_new_reading("/files/report.csv", later + 7)
    for number in range(MOST_PATHS):
        attention.is_new_reading(f"/{number}", later)
    assert attention.is_new_reading("/api/kernels", later)


def test_a_deed_is_what_changes_something_out_of_a_beat() -> None:
    attention = Attention(0.0)
    assert [attention.is_deed("POST", "/rpc/events", 50.0 * turn) for turn in range(4)] == [
        True,
        True,
        False,
        False,
    ]
    assert attention.is_deed("PUT", "/api/contents/a.ipynb", 77.0)


def test_what_a_page_says_when_it_connects_is_no_deed() -> None:
    conversation = Conversation(0.0)
    assert not conversation.is_deed(200, SETTLING_S / 2)
    assert conversation.is_deed(200, SETTLING_S + 5)
