"""The database restarts, or does not answer: what people see, and that nothing stays broken."""

import psycopg
import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.test import RequestFactory
from django.utils.functional import SimpleLazyObject

from accounts.models import Domain
from common.error_pages import server_error

CONNECTION = {"host": "HOST", "port": "PORT", "dbname": "NAME", "user": "USER", "password": "PASSWORD"}


@pytest.mark.django_db(transaction=True)
def test_connections_that_a_restart_ended_are_replaced_before_they_are_used() -> None:
    Domain.objects.count()
    settings_of = connection.settings_dict
    connection.close()  # back to the pool
    database = {key: settings_of[name] for key, name in CONNECTION.items()}
    with psycopg.connect(**database) as administrator:
        administrator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert Domain.objects.count() == 0


def test_page_of_a_mistake_shows_while_the_database_is_lost() -> None:
    def lost() -> None:
        raise OperationalError("the database does not answer")

    request = RequestFactory().get("/", headers={"host": settings.ALLOWED_HOSTS[0]})
    request.user = SimpleLazyObject(lost)  # type: ignore[assignment]
    answer = server_error(request)
    assert answer.status_code == 500
    assert b"Berth made a mistake" in answer.content
