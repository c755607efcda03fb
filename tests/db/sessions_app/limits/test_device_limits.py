"""Limits and budgets of accelerators: at every level, for parts of a device and for MIG slices."""

from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.budgets.selectors import budget_states
from accounts.core.budget_arithmetic import Period, Unit
from accounts.core.limits import Level
from common import clock
from common.actors import Actor
from common.errors import LimitExceeded
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.models import ComputeSession
from tests.db.accounts.budgets.test_budgets import budget, held_for
from tests.db.sessions_app.limits.test_policy_limits import LEVELS, limits_hit, program, target_of
from tests.factories import actor_for
from tests.factories_devices import give_devices
from tests.factories_limits import limit, use_of
from tests.factories_sessions import GIB, Place, make_place

pytestmark = pytest.mark.django_db
__all__ = ["program"]


@pytest.fixture
def place() -> Place:
    """With a machine with two GPUs and seven slices of another one."""
    place = make_place()
    give_devices(place.agent, 2, "H100", slot="cuda", mem_bytes=80 * GIB)
    give_devices(place.agent, 7, "H100", slot="mig-1g-10gb", mem_bytes=10 * GIB)
    return place


def ask(place: Place, actor: Actor, **devices: object) -> ComputeSession:
    resources = {"cpu": 0.1, "mem": "64m", **devices}
    return enqueue_session(actor=actor, request=parse_request(place.request(resources=resources)))


@pytest.mark.parametrize("level", LEVELS)
def test_devices_are_limited_at_each_level(place: Place, program: Actor, level: str) -> None:
    limit(target_of(place, program, level), max_slots={"cuda": 1500})

    assert limits_hit(lambda: ask(place, program, cuda=2)) == [("slots.cuda", level, 1500, 0, 2000, 1500)]
    with pytest.raises(LimitExceeded, match=r"may have at most 1.5 × NVIDIA GPU allocated"):
        ask(place, program, cuda=2)
    assert ask(place, program, cuda=1).requested_slots["cuda"] == 1000
    assert ask(place, program, mig={"1g.10gb": 3}).pk, "slices count in their own slot"


def test_a_limit_of_waiting_devices_counts_the_share_of_a_part(place: Place) -> None:
    limit(place.project, max_pending_slots={"cuda": 400})
    actor = actor_for(place.owner)

    ask(place, actor, **{"cuda.mem": "20g"})
    with pytest.raises(LimitExceeded, match=r"0\.25 × NVIDIA GPU"):
        ask(place, actor, **{"cuda.mem": "20g"})


def test_allocated_parts_count_in_limits_and_gpu_hours(place: Place) -> None:
    limit(place.project, max_slots={"cuda": 400})
    today = clock.now().date()
    budget(
        place, unit=Unit.DEVICE_HOURS, amount=Decimal(100), period=Period.TERM,
        starts_on=today - timedelta(days=2), ends_on=today,
    )  # fmt: skip
    session = place.run(resources={"cpu": 0.1, "mem": "64m", "cuda.mem": "20g"})
    held_for(session, timedelta(hours=8))

    assert use_of(place.project)["slots.cuda"] == 250
    [state] = budget_states([(Level.USER, place.owner.pk)])
    assert float(state.spent) == pytest.approx(2, abs=0.01)
    assert (
        place.place(resources={"cpu": 0.1, "mem": "64m", "cuda.mem": "20g"}).status_reason == "limit_reached"
    )


def test_a_budget_of_gpu_hours_that_is_used_up_refuses_in_these_words(place: Place) -> None:
    budget(place, unit=Unit.DEVICE_HOURS, amount=Decimal(0))

    with pytest.raises(LimitExceeded, match=r"all of 0\.00 GPU-hours"):
        ask(place, actor_for(place.owner), cuda=1)
