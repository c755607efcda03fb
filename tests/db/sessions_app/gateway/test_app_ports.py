"""Leases of ports for apps."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from common import clock
from common.errors import LimitExceeded, Unavailable
from sessions_app.core.app_address import AppPort
from sessions_app.core.states import Status
from sessions_app.gateway.proxy import app_ports
from sessions_app.models import AssignedPort, ComputeSession
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db

PORTS = (8101, 8102, 8103, 8104)


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    app_ports.set_listening_ports(PORTS)
    yield
    app_ports.set_listening_ports(())


def end(session: ComputeSession, *, ago_s: int) -> None:
    ComputeSession.objects.filter(pk=session.pk).update(
        status=Status.TERMINATED, ended_at=clock.now() - timedelta(seconds=ago_s)
    )


def test_an_app_keeps_its_port_and_another_gets_another(place: Place) -> None:
    session = place.run()
    first = app_ports.assign_port(session, "lab")
    assert app_ports.assign_port(session, "lab") == first == AppPort(8101)
    assert app_ports.assign_port(session, "p8000") == AppPort(8102)
    endpoint = app_ports.assigned_port(first)
    assert endpoint is not None
    assert (endpoint.session, endpoint.app) == (session, "lab")


def test_a_port_is_lent_again_after_it_has_rested_the_longest_rested_first(place: Place) -> None:
    sessions = [place.run() for _ in PORTS]
    for session, port in zip(sessions, PORTS, strict=True):
        AssignedPort.objects.create(port=port, session=session, app="lab")
    end(sessions[0], ago_s=app_ports.REUSE_AFTER_S + 10)
    end(sessions[1], ago_s=app_ports.REUSE_AFTER_S + 20)
    end(sessions[2], ago_s=app_ports.REUSE_AFTER_S - 60)
    fresh = place.run()
    assert app_ports.assign_port(fresh, "lab") == AppPort(8102)
    assert AssignedPort.objects.get(port=8102).session == fresh
    assert AssignedPort.objects.count() == len(PORTS)


def test_message_says_that_all_ports_are_leased(place: Place) -> None:
    for port in PORTS:
        session = place.run()
        AssignedPort.objects.create(port=port, session=session, app="lab")
        end(session, ago_s=1)
    with pytest.raises(Unavailable, match="All 4 ports"):
        app_ports.assign_port(place.run(), "lab")


def test_one_person_cannot_take_all(place: Place) -> None:
    session = place.run()
    for app in ("p1", "p2"):
        app_ports.assign_port(session, app)
    assert app_ports.assign_port(session, "p1") == AppPort(8101)
    with pytest.raises(LimitExceeded, match="2 apps"):
        app_ports.assign_port(session, "p3")


def test_an_app_whose_port_is_not_listened_on_any_more_gets_another(place: Place) -> None:
    session = place.run()
    app_ports.assign_port(session, "lab")
    app_ports.set_listening_ports(PORTS[1:])
    assert app_ports.assign_port(session, "lab") == AppPort(8102)
    assert AssignedPort.objects.count() == 1
