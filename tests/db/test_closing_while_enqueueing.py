"""Who closes what a session belongs to, while it is let in, waits for it, and then finds it."""

import threading
from collections.abc import Callable, Mapping
from uuid import UUID

import pytest
from django.db import connection, connections, transaction

from accounts import closing
from accounts.policies import LimitUse
from agents.groups import delete_resource_group
from common.actors import SYSTEM
from common.errors import BerthError, Conflict
from sessions_app import services
from sessions_app.models import ComputeSession
from tests.db.test_scheduler_concurrency import held_open
from tests.elsewhere import elsewhere
from tests.factories_sessions import Place, make_place
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
Close = Callable[[Place], object]


def archive_project(place: Place) -> object:
    return closing.update_project(actor=SYSTEM, project_id=place.project.pk, is_active=False)


def close_domain(place: Place) -> object:
    return closing.update_domain(actor=SYSTEM, domain_id=place.project.domain_id, is_active=False)


def delete_group(place: Place) -> object:
    return delete_resource_group(actor=SYSTEM, group_id=place.group.pk)


def somebody_waits_for_a_lock() -> bool:
    return waiting_for_locks() > 0


def waiting_for_locks() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize("close", [archive_project, close_domain, delete_group])
def test_who_closes_what_a_session_is_let_into_waits_and_finds_it(
    close: Close, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make_place()
    refused: list[BerthError] = []

    def try_to_close() -> None:
        try:
            close(place)
        except BerthError as error:
            refused.append(error)
        finally:
            connections.close_all()

    closer = threading.Thread(target=try_to_close)
    tell = services._tell_enqueued

    def be_closed_and_tell(session: ComputeSession, copies: Mapping[UUID, str]) -> None:
        closer.start()  # the rows of the session are written, and nobody else sees them yet
        wait_until(somebody_waits_for_a_lock)
        tell(session, copies)

    monkeypatch.setattr(services, "_tell_enqueued", be_closed_and_tell)
    with transaction.atomic():
        session = place.enqueue()
    closer.join()
    assert [type(error) for error in refused] == [Conflict]
    assert ComputeSession.objects.live().filter(pk=session.pk).exists()


@pytest.mark.parametrize("close", [archive_project, close_domain, delete_group])
def test_and_so_does_who_closes_it_while_a_lone_request_is_written(close: Close) -> None:
    """By its only statement, which waits for what others count meanwhile."""
    place = make_place()
    place.enqueue()
    told: list[object] = []

    def tell(job: Callable[[], object]) -> None:
        try:
            told.append(type(job()))
        except BerthError as error:
            told.append(type(error))

    late, closer = (
        threading.Thread(target=lambda job=job: elsewhere(lambda: tell(job)))  # type: ignore[misc]
        for job in (place.enqueue, lambda: close(place))
    )
    with held_open(lambda: list(LimitUse.objects.select_for_update())):
        late.start()
        wait_until(somebody_waits_for_a_lock)
        closer.start()
        wait_until(lambda: waiting_for_locks() == 2)
    late.join()
    closer.join()
    assert sorted(told, key=str) == sorted([ComputeSession, Conflict], key=str)
