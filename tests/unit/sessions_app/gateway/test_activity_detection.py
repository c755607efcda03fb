"""Polling by pages is told from user actions."""

import random

from sessions_app.gateway.activity.polling_detection import (
    LEARNING_S,
    MAX_KINDS,
    MAX_PATHS,
    SETTLING_S,
    IntervalDetector,
    RequestActivity,
    WebsocketActivity,
)


def test_a_beat_is_known_from_its_third_stroke_on() -> None:
    rhythm = IntervalDetector()
    assert [rhythm.is_irregular("poll", 10.0 * turn) for turn in range(6)] == [True, True, *[False] * 4]


def test_a_beat_that_wavers_or_slows_down_is_one() -> None:
    rhythm, chance = IntervalDetector(), random.Random(7)
    at, heard = 0.0, []
    for turn in range(200):
        at += (30 if turn < 100 else 60) + chance.uniform(-2, 2)
        heard.append(rhythm.is_irregular("alive", at))
    assert sum(heard) <= 4


def test_typing_is_no_beat() -> None:
    rhythm, at, seen = IntervalDetector(), 0.0, 0
    for pause in (0.2, 0.1, 0.3, 12, 0.2, 0.15, 45, 0.1):
        at += pause
        seen += rhythm.is_irregular(13, at)
    assert seen >= 7


def test_number_of_remembered_request_kinds_is_bounded() -> None:
    rhythm = IntervalDetector()
    for kind in range(MAX_KINDS + 1):
        rhythm.is_irregular(kind, 0.0)
    rhythm.is_irregular(0, 10.0)
    assert rhythm.is_irregular(0, 20.0)  # forgotten in between: it begins anew


def test_what_a_page_reads_by_itself_is_no_news_and_what_it_never_read_is() -> None:
    activity = RequestActivity(0.0)
    assert not activity.is_first_read("/api/kernels", 1.0)
    later = LEARNING_S + 1
    assert not activity.is_first_read("/api/kernels", later)
    assert activity.is_first_read("/files/report.csv", later)
    assert not activity.is_first_read("/files/report.csv", later + 7)
    for number in range(MAX_PATHS):
        activity.is_first_read(f"/{number}", later)
    assert activity.is_first_read("/api/kernels", later)


def test_a_deed_is_what_changes_something_out_of_a_beat() -> None:
    activity = RequestActivity(0.0)
    assert [activity.is_user_action("POST", "/rpc/events", 50.0 * turn) for turn in range(4)] == [
        True,
        True,
        False,
        False,
    ]
    assert activity.is_user_action("PUT", "/api/contents/a.ipynb", 77.0)


def test_messages_on_connecting_are_no_activity() -> None:
    activity = WebsocketActivity(0.0)
    assert not activity.is_user_action(200, SETTLING_S / 2)
    assert activity.is_user_action(200, SETTLING_S + 5)
