"""The table of statuses is complete: every path ends, and each has a deadline and a message."""

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.core.states import (
    DEADLINES_S,
    HOLDING,
    LIVE,
    OUTCOMES,
    REASON_SENTENCES,
    TERMINAL,
    TRANSITIONS,
    Reason,
    Status,
    end_status,
    is_legal,
)


def reachable(status: Status) -> set[Status]:
    seen, todo = set(), [status]
    while todo:
        for following in TRANSITIONS[todo.pop()] - seen:
            seen.add(following)
            todo.append(following)
    return seen


def test_every_status_has_a_row_in_the_table() -> None:
    assert set(TRANSITIONS) == set(Status)


def test_every_live_status_can_reach_a_terminal_one() -> None:
    assert all(reachable(status) & TERMINAL for status in LIVE)


def test_every_live_status_has_a_deadline_and_no_terminal_one_has() -> None:
    assert set(DEADLINES_S) == LIVE


def test_every_status_is_reachable_from_pending() -> None:
    assert reachable(Status.PENDING) == set(Status)


def test_resources_are_allocated_from_scheduled_to_terminating() -> None:
    assert HOLDING == {
        Status.SCHEDULED,
        Status.PREPARING,
        Status.STARTING,
        Status.RUNNING,
        Status.TERMINATING,
    }


def test_every_reason_has_a_sentence() -> None:
    assert set(REASON_SENTENCES) == set(Reason)
    assert all(str(sentence).endswith(".") for sentence in REASON_SENTENCES.values())


def test_every_outcome_is_legal_after_terminating() -> None:
    assert all(is_legal(Status.TERMINATING, end_status(reason)) for reason in Reason)
    assert set(OUTCOMES.values()) <= TERMINAL


@given(st.lists(st.sampled_from(list(Status)), max_size=30))
def test_no_sequence_of_moves_leaves_the_table(wanted: list[Status]) -> None:
    current = Status.PENDING
    for to in wanted:
        if is_legal(current, to):
            assert not current.is_terminal
            current = to
    assert current in Status
