"""Through the real database, no agent is over-allocated by any order of requests, stops and ticks."""

from collections import Counter

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.tick import run_tick
from sessions_app.core.states import HOLDING
from sessions_app.launch.launcher import launch_session
from sessions_app.launch.terminator import end_session
from sessions_app.models import ComputeSession
from sessions_app.termination.service import terminate_session
from tests.factories import actor_for
from tests.factories_sessions import GIB, Place, make_place

amounts = st.fixed_dictionaries(
    {"cpu": st.sampled_from([0.5, 1, 3, 4]), "mem": st.sampled_from(["1g", "3g", "6g"])}
)
picks = st.integers(0, 5)
steps = st.lists(
    st.tuples(st.just("enqueue"), amounts)
    | st.tuples(st.just("tick"), st.none())
    | st.tuples(st.sampled_from(["launch", "stop", "end"]), picks),
    max_size=14,
)


@pytest.mark.django_db
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_no_machine_holds_more_than_it_has(taken: list[tuple[str, object]]) -> None:
    with transaction.atomic():
        place = make_place(cpu_milli=4000, mem_bytes=8 * GIB)
        for name, value in taken:
            take(place, name, value)
            assert_ledger_is_true(place)
        transaction.set_rollback(True)


def take(place: Place, name: str, value: object) -> None:
    if name == "enqueue":
        place.enqueue(resources=value)
    elif name == "tick":
        run_tick(place.group.pk)
    elif session := ComputeSession.objects.order_by("created_at")[value : value + 1].first():  # type: ignore[operator]
        if name == "stop":
            terminate_session(actor=actor_for(place.owner), session_id=session.pk)
        else:
            {"launch": launch_session, "end": end_session}[name](session.pk)


def assert_ledger_is_true(place: Place) -> None:
    asked: Counter[str] = Counter()
    for session in ComputeSession.objects.filter(status__in=HOLDING):
        asked.update(session.requested_slots)
    assert place.occupied() == dict(asked)
    assert all(asked[slot.slot_name] <= slot.capacity for slot in place.agent.slots.all())
