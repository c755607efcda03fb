"""Estimates of starts beside reservations."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from scheduler.snapshot.start_time_model import AllocatedKernel, QueuedSession, RunLengths, estimate_each
from sessions_app.core.start_estimate import StartRange

KIND = (1, 1, "batch")
CORE = {"cpu": 1000}
HOUR = 3600.0


def told(
    *closed: tuple[float, float], held_s: float | None = None, others: Sequence[int] = ()
) -> StartRange | None:
    """Of one that asks for all of machine 1, which somebody holds for `held_s` more; `others` are full for ever."""
    wanted = QueuedSession(UUID(int=7), CORE, 1, [1, *others], KIND, blocked={1: closed})
    held = [] if held_s is None else [AllocatedKernel(1, CORE, KIND, 0.0)]
    free = {1: {} if held else CORE, **{agent_id: {} for agent_id in others}}
    lengths = RunLengths({KIND: [held_s or 1.0] * 5})
    return estimate_each([wanted], held, free, lengths, no_later_s={})[wanted.id]


@pytest.mark.parametrize(
    ("closed", "held_s", "starts_s"),
    [
        ([], None, 0),
        ([(0, HOUR)], None, 3600),  # reserved now
        ([(HOUR, 2 * HOUR)], None, 0),  # to come: it ends before that begins
        ([(0, 2 * HOUR)], None, 7200),  # to come: it would not have ended
        ([(0, HOUR)], 1800.0, 3600),
        ([(0, HOUR)], 5400.0, 5400),
        ([(HOUR, 3 * HOUR)], 5400.0, 10800),  # full until it is too late
        ([(0, HOUR), (HOUR, 2 * HOUR)], None, 7200),  # one after the other
    ],
)
def test_it_starts_before_or_after_what_is_reserved(
    closed: list[tuple[float, float]], held_s: float | None, starts_s: int
) -> None:
    for others in ((), (2,)):
        assert told(*closed, held_s=held_s, others=others) == StartRange(starts_s, starts_s)
