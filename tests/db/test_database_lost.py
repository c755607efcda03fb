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
