"""What one person may have at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from common.errors import LimitExceeded
from sessions_app import services
from sessions_app.models import ComputeSession
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(services, "LIVE_SESSIONS_PER_USER", 2)
    return make_place()


def test_ended_sessions_do_not_count(place: Place) -> None:
    place.end(place.run())
    place.enqueue()
    place.enqueue()
    with pytest.raises(LimitExceeded, match="2 live sessions"):
        place.enqueue()


def test_requests_at_the_same_moment_do_not_get_around_the_limit(place: Place) -> None:
    def enqueue(number: int) -> None:
        try:
            place.enqueue(name=f"at-once-{number}")
        except LimitExceeded:
            pass
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(enqueue, range(6)))
    assert ComputeSession.objects.live().count() == 2
