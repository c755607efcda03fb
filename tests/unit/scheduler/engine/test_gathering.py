"""Accumulation of capacity after the expected release time has passed."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common.values.resources import ResourceSlots
from scheduler.engine import Accumulation, PendingSession, Requirements
from scheduler.engine.capacity.accumulation import choose_accumulation
from scheduler.engine.capacity.backfill import EarliestStart

NOW = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def waiting(held_for: timedelta) -> PendingSession:
    """A session for which room was gathered on agent 10, without success, for so long."""
    return PendingSession(
        id=UUID(int=1),
        enqueued_at=NOW - held_for,
        requirements=Requirements("x86_64", (ResourceSlots({"cpu": 1}),)),
        kernel_ids=(UUID(int=2),),
        accumulation=Accumulation(UUID(int=1), (10,), NOW - held_for, NOW),
    )


@pytest.mark.parametrize(("elsewhere_in", "agent_ids"), [(6, (10,)), (4, (20,))])
def test_a_choice_is_left_only_for_a_place_expected_in_half_the_time(
    elsewhere_in: int, agent_ids: tuple[int, ...]
) -> None:
    there = EarliestStart([0], None, NOW + 10 * MINUTE)
    elsewhere = EarliestStart([1], None, NOW + elsewhere_in * MINUTE)
    _place, chosen = choose_accumulation(waiting(30 * MINUTE), elsewhere, there, NOW, ids=[10, 20])
    assert (chosen.agent_ids, chosen.until - chosen.since) == (agent_ids, 60 * MINUTE)
