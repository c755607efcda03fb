"""Sessions waiting in a group that was closed to them are held, and cancelled after a day."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agents.models import GroupGrant, ResourceGroup
from agents.resource_groups import service
from common import clock
from common.actors import SYSTEM
from portal.models import Notification
from portal.notifications.session_end import notify_of_ends
from scheduler.commit.plan_commit import commit_plan
from scheduler.engine import plan
from scheduler.snapshot.reader import read_snapshot
from scheduler.tick import run_tick
from sessions_app.core.states import Reason, Status
from sessions_app.launch.terminator import end_session
from sessions_app.models import ComputeSession
from sessions_app.queue.array_release import release_elements
from sessions_app.queue.closed_groups import update_group_holds
from sessions_app.queue.holds import release_due_starts
from sessions_app.reconciler.loop import enforce_deadlines
from sessions_app.termination.service import begin_termination
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
ALL = {"cpu": 8, "mem": "1g"}


def granted(place: Place, grantee: Any) -> GroupGrant:
    service.update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"is_public": False})
    return allow(place, grantee)


def allow(place: Place, grantee: Any) -> GroupGrant:
    return service.grant_resource_group(actor=SYSTEM, group_id=place.group.pk, grantee=grantee)


def revoke(place: Place, grant: GroupGrant) -> None:
    service.revoke_resource_group(actor=SYSTEM, group_id=place.group.pk, grant_id=grant.pk)


def standing(session: ComputeSession) -> tuple[str, str, str]:
    session.refresh_from_db()
    return session.status, session.held_for, session.status_reason


OUTSIDE = ("PENDING", "group_closed", "group_closed")
QUEUED = ("PENDING", "", "enqueued")


@pytest.mark.parametrize("level", ["domain", "project", "user"])
def test_revoked_grant_holds_pending_sessions_with_a_reason(place: Place, level: str) -> None:
    grant = granted(
        place, {"domain": place.project.domain, "project": place.project, "user": place.owner}[level]
    )
    runs, waits = place.run(resources=ALL), place.enqueue()
    revoke(place, grant)
    assert standing(waits) == OUTSIDE, "at once, without any round"
    assert f"“{place.group.name}” is not open to it any more" in str(waits.status_message)
    assert standing(runs)[0] == "RUNNING"
    place.end(runs)
    assert not run_tick(place.group.pk)
    assert standing(waits) == OUTSIDE


def test_another_grant_keeps_sessions_pending(place: Place) -> None:
    grant = granted(place, place.project)
    allow(place, place.owner)
    waits = place.enqueue()
    revoke(place, grant)
    update_group_holds()
    assert standing(waits) == QUEUED


def test_a_slip_is_undone_and_costs_no_place(place: Place) -> None:
    first, second = place.enqueue(resources=ALL), place.enqueue(resources=ALL)
    service.update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"is_public": False})
    assert standing(first) == standing(second) == OUTSIDE
    service.update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"is_public": True})
    update_group_holds()
    update_group_holds()
    assert standing(first) == standing(second) == QUEUED
    assert run_tick(place.group.pk) == [first.pk]


def test_only_sessions_of_a_disallowed_type_are_held(place: Place) -> None:
    notebook, batch = place.enqueue(), place.enqueue(type="batch", command="true")
    service.update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"session_types": ["batch"]})
    assert standing(notebook) == OUTSIDE
    assert standing(batch) == QUEUED


def test_what_a_process_that_died_left_undone_the_next_round_does(place: Place) -> None:
    """A grant goes with its project or person, too, and nobody is asked then."""
    granted(place, place.project)
    waits = place.enqueue()
    GroupGrant.objects.all().delete()
    assert standing(waits) == QUEUED
    update_group_holds()
    assert standing(waits) == OUTSIDE


def test_sessions_released_later_are_held_on_release(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    grant = granted(place, place.project)
    waits = place.enqueue(start_at=(clock.now() + timedelta(hours=1)).isoformat())
    revoke(place, grant)
    assert standing(waits)[1] == "start_time"
    ComputeSession.objects.update(start_at=clock.now() - timedelta(seconds=1))
    release_due_starts()
    assert standing(waits) == OUTSIDE
    assert not run_tick(place.group.pk)


def test_held_session_is_cancelled_after_a_day_with_a_notification(place: Place) -> None:
    grant = granted(place, place.project)
    waits = place.enqueue(pending_timeout_s=30)
    revoke(place, grant)
    waits.refresh_from_db()
    enforce_deadlines(clock.now() + timedelta(hours=23))
    assert standing(waits) == OUTSIDE
    ComputeSession.objects.update(deadline_at=clock.now() - timedelta(seconds=1))
    enforce_deadlines(clock.now())
    assert standing(waits)[::2] == (Status.CANCELLED, "group_closed")
    notify_of_ends([waits.pk])
    assert [each.code for each in Notification.objects.filter(person=place.owner)] == ["shut_out"]


def test_groups_that_are_open_to_all_cost_one_query_together(place: Place) -> None:
    ResourceGroup.objects.create(name="other")
    place.enqueue()
    with CaptureQueriesContext(connection) as queries:
        update_group_holds()
    assert len([each for each in queries if each["sql"].startswith("SELECT")]) <= 2


@pytest.mark.django_db(transaction=True)
def test_locked_session_does_not_block_closing_its_group(place: Place) -> None:
    grant = granted(place, place.owner)
    locked, other = place.enqueue(), place.enqueue()

    def close() -> None:
        try:
            revoke(place, grant)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        ComputeSession.objects.select_for_update().get(pk=locked.pk)
        pool.submit(close).result(timeout=20)
    assert (standing(locked), standing(other)) == (QUEUED, OUTSIDE)
    update_group_holds()
    assert standing(locked) == OUTSIDE


def test_older_plan_does_not_touch_sessions_held_since(place: Place) -> None:
    granted(place, place.project)
    fits, waits = place.enqueue(), place.enqueue(resources=ALL)
    planned = plan(read_snapshot(place.group.pk), clock.now())
    GroupGrant.objects.all().delete()  # as with its project
    update_group_holds()
    commit_plan(planned)
    assert (standing(fits), standing(waits)) == (OUTSIDE, OUTSIDE)


def test_older_plan_starts_no_session_stopped_since(place: Place) -> None:
    session = place.enqueue()
    planned = plan(read_snapshot(place.group.pk), clock.now())
    ComputeSession.objects.update(stops_at=clock.now())
    commit_plan(planned)
    assert standing(session)[0] == "PENDING"


def test_what_would_be_tried_again_ends_where_its_type_is_taken_no_more(place: Place) -> None:
    session = place.run(type="batch", command="false", max_retries=2)
    service.update_resource_group(
        actor=SYSTEM, group_id=place.group.pk, changes={"session_types": ["interactive"]}
    )
    begin_termination(session.pk, reason=Reason.COMMAND_FAILED, actor=SYSTEM, exit_code=1)
    end_session(session.pk)
    session.refresh_from_db()
    assert session.status == Status.TERMINATED
    assert "takes no sessions of the type" in str(session.status_message)


def test_no_element_of_an_array_is_let_into_a_closed_group(place: Place) -> None:
    grant = granted(place, place.owner)
    first = place.run(name="a", type="batch", command="true", array="1-3%1")
    revoke(place, grant)
    place.end(first)
    release_elements(first.array_id)
    held = ComputeSession.objects.live().order_by("array_index").values_list("held_for", flat=True)
    assert list(held) == ["group_closed", "array_limit"]
    assert run_tick(place.group.pk) == []
    allow(place, place.owner)
    update_group_holds()
    assert len(run_tick(place.group.pk)) == 1
