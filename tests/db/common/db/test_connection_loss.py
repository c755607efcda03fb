"""A restarting or silent database: pages that users see, and recovery of connections."""

import psycopg
import pytest
from django.conf import settings
from django.db import OperationalError, ProgrammingError, connection, transaction
from django.http import HttpResponse
from django.test import RequestFactory
from django.utils.functional import SimpleLazyObject

from accounts.models import Domain
from common.db.connection import TimeoutConnection
from common.pages.error_pages import server_error
from common.pages.middleware import ErrorPageMiddleware
from common.rest.errors import render_error

CONNECTION = {"host": "HOST", "port": "PORT", "dbname": "NAME", "user": "USER", "password": "PASSWORD"}


@pytest.mark.django_db(transaction=True)
def test_connection_that_a_restart_ended_is_replaced_before_it_is_used() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [pid] = cursor.fetchone()
    pool_size = settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"]
    database = {key: connection.settings_dict[name] for key, name in CONNECTION.items()}
    connection.close()  # back to the pool

    with psycopg.connect(**database) as administrator:
        administrator.execute("SELECT pg_terminate_backend(%s)", [pid])

    for _ in range(pool_size):  # the pool hands out one after the other
        assert Domain.objects.count() == 0
        connection.close()


def test_page_of_a_mistake_shows_while_the_database_is_lost() -> None:
    def lost() -> None:
        raise OperationalError("the database does not answer")

    request = RequestFactory().get("/", headers={"host": settings.ALLOWED_HOSTS[0]})
    request.user = SimpleLazyObject(lost)  # type: ignore[assignment]
    answer = server_error(request)
    assert answer.status_code == 500
    assert b"Berth made a mistake" in answer.content


@pytest.mark.django_db(transaction=True)
def test_database_that_does_not_answer_is_given_up_and_its_connection_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TimeoutConnection, "silence_s", 0.2)
    with connection.cursor() as cursor, pytest.raises(OperationalError, match="has not answered within"):
        cursor.execute("SELECT pg_sleep(60)")
    assert not connection.is_usable()
    connection.close()
    monkeypatch.setattr(TimeoutConnection, "silence_s", 15.0)
    assert Domain.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_error_that_follows_a_lost_connection_is_reported_as_lost_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TimeoutConnection, "silence_s", 0.2)

    @transaction.atomic
    def go_on_without_it() -> None:
        try:
            connection.cursor().execute("SELECT pg_sleep(60)")
        finally:
            connection.close()
            Domain.objects.count()

    with pytest.raises(ProgrammingError) as raised:
        go_on_without_it()
    answer = render_error(raised.value, {})
    assert answer is not None
    assert (answer.status_code, answer.data["code"]) == (503, "database_lost")


def test_program_is_told_that_the_database_does_not_answer() -> None:
    answer = render_error(OperationalError("the database does not answer"), {})
    assert answer is not None
    assert (answer.status_code, answer.data["code"]) == (503, "database_lost")


@pytest.mark.parametrize("cause", [psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure])
def test_lock_conflict_is_reported_as_retry_not_as_lost_database(
    cause: type[psycopg.Error],
) -> None:
    undone = OperationalError("deadlock detected")
    undone.__cause__ = cause()
    answer = render_error(undone, {})
    assert answer is not None
    assert (answer.status_code, answer.data["code"]) == (409, "changed_meanwhile")

    request = RequestFactory().get("/", headers={"host": settings.ALLOWED_HOSTS[0]})
    page = ErrorPageMiddleware(lambda request: HttpResponse()).process_exception(request, undone)
    assert page is not None
    assert page.status_code == 409
    assert b"try again" in page.content
    try:
        raise undone
    except OperationalError:
        assert server_error(request).status_code == 409


def test_page_says_that_the_database_does_not_answer() -> None:
    request = RequestFactory().get("/", headers={"host": settings.ALLOWED_HOSTS[0]})
    middleware = ErrorPageMiddleware(lambda request: HttpResponse())
    answer = middleware.process_exception(request, OperationalError("the database does not answer"))
    assert answer is not None
    assert answer.status_code == 503
    try:
        raise OperationalError("outside of every view")
    except OperationalError:
        assert server_error(request).status_code == 503
