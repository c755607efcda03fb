"""Batches of alike sessions are written all or none, in order."""

from dataclasses import replace
from typing import Any

import pytest

from common.errors import Conflict, InvalidInput, LimitExceeded
from common.models import AuditEntry
from scheduler.tick import run_tick
from sessions_app.admission.service import enqueue_batch
from sessions_app.core.queue_options import Hold
from sessions_app.core.request import SessionRequest, parse_request
from sessions_app.core.states import Status
from sessions_app.events import SessionEnqueued, SessionsEnqueued
from sessions_app.models import ComputeSession, Kernel, SessionTransition
from tests.factories import actor_for
from tests.factories_limits import limit, use_of
from tests.factories_sessions import GIB, Place

pytestmark = pytest.mark.django_db
OWN = {"id", "name", "command", "environment", "host_label", "app_token", "created_at"}


def alike(place: Place, count: int, **changes: object) -> list[SessionRequest]:
    asked = {"type": "batch", "command": "train", "priority": 0, "max_retries": 2, **changes}
    request = parse_request(place.request(**asked))
    return [
        replace(request, name=f"train-{number}", command=f"train {number}", environment={"STEP": str(number)})
        for number in range(count)
    ]


def ask(place: Place, requests: list[SessionRequest]) -> list[ComputeSession]:
    ids = enqueue_batch(actor=actor_for(place.owner), requests=requests)
    by_id = ComputeSession.objects.in_bulk(ids)
    return [by_id[each] for each in ids]


def test_each_is_as_if_asked_for_alone_in_its_order(place: Place) -> None:
    sessions = ask(place, alike(place, 4))

    assert [(each.name, each.command, each.environment) for each in sessions] == [
        (f"train-{number}", f"train {number}", {"STEP": str(number)}) for number in range(4)
    ]
    assert sorted(sessions, key=lambda each: each.created_at) == sessions
    assert len({(each.host_label, each.app_token) for each in sessions}) == 4
    columns = [field.attname for field in ComputeSession._meta.concrete_fields if field.attname not in OWN]
    assert len({repr([getattr(each, name) for name in columns]) for each in sessions}) == 1
    assert Kernel.objects.filter(session__in=sessions, role="main", index=1, attempt=1).count() == 4
    told = SessionTransition.objects.filter(session__in=sessions)
    assert {(each.session_id, each.to_status, str(each.message)) for each in told} == {
        (each.pk, Status.PENDING.value, str(each.status_message)) for each in sessions
    }


def test_the_access_log_has_a_line_for_each(place: Place) -> None:
    sessions = ask(place, alike(place, 3))

    lines = AuditEntry.objects.filter(action="sessions.enqueue_session", actor_id=place.owner.pk)
    assert {(each.target_id, each.target_label, each.domain_id) for each in lines} == {
        (str(each.pk), each.name, place.project.domain_id) for each in sessions
    }


def test_limits_count_all_of_them_and_refuse_all_or_none(place: Place) -> None:
    limit(place.project, max_sessions=4)
    ask(place, alike(place, 3))

    with pytest.raises(LimitExceeded) as refused:
        ask(place, [replace(each, name=f"more-{each.name}") for each in alike(place, 2)])

    assert [(state["limit"], state["asked"], state["left"]) for state in refused.value.limits] == [
        ("sessions", 2, 1)
    ]
    assert use_of(place.project)["pending_sessions"] == 3
    assert use_of(place.project)["pending_slots.mem"] == 3 * GIB


def test_waiting_amounts_are_summed_up_in_the_refusal(place: Place) -> None:
    limit(place.owner, max_pending_slots={"cpu": 2000})

    with pytest.raises(LimitExceeded) as refused:
        ask(place, alike(place, 3))

    assert [(state["limit"], state["asked"]) for state in refused.value.limits] == [
        ("pending_slots.cpu", 3000)
    ]
    assert not ComputeSession.objects.exists()


def test_used_name_is_refused_and_nothing_is_written(place: Place) -> None:
    place.enqueue(name="train-2")

    with pytest.raises(Conflict, match="train-2"):
        ask(place, alike(place, 4))

    assert list(ComputeSession.objects.values_list("name", flat=True)) == ["train-2"]


def test_a_name_that_comes_twice_is_refused(place: Place) -> None:
    first, second = alike(place, 2)

    with pytest.raises(InvalidInput, match="train-0"):
        ask(place, [first, replace(second, name=first.name)])


def test_only_their_own_fields_may_differ(place: Place) -> None:
    first, second = alike(place, 2)

    with pytest.raises(ValueError, match="differ"):
        ask(place, [first, replace(second, priority=1)])
    with pytest.raises(ValueError, match="No session"):
        ask(place, [])


def test_copies_come_after_the_same_others(place: Place) -> None:
    before = place.enqueue(type="batch", command="true")

    sessions = ask(place, alike(place, 3, dependencies=[str(before.pk)]))

    assert [each.held_for for each in sessions] == [Hold.DEPENDENCY.value] * 3
    assert [each.dependencies.get().after_id for each in sessions] == [before.pk] * 3


def test_one_news_asks_for_a_tick_of_all(
    place: Place, django_capture_on_commit_callbacks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    news: list[object] = []
    monkeypatch.setattr("sessions_app.admission.service.publish", news.append)

    ask(place, alike(place, 3))
    ask(place, [replace(alike(place, 1)[0], name="alone")])

    assert news[0] == SessionsEnqueued(place.group.pk)
    assert isinstance(news[1], SessionEnqueued)


def test_all_of_them_are_placed_by_one_tick(place: Place) -> None:
    sessions = ask(place, alike(place, 5))

    assert set(run_tick(place.group.pk)) == {each.pk for each in sessions}


def test_the_count_of_statements_does_not_grow(place: Place, django_assert_max_num_queries: Any) -> None:
    with django_assert_max_num_queries(50) as few:
        ask(place, alike(place, 2))
    with django_assert_max_num_queries(len(few.captured_queries)):
        ask(place, [replace(each, name=f"many-{each.name}") for each in alike(place, 40)])
