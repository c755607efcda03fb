"""The gateway records user activity and reports it at intervals."""

import asyncio
import threading
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError

from sessions_app.gateway.activity import recorder as module
from sessions_app.gateway.activity.polling_detection import LEARNING_S
from sessions_app.gateway.activity.recorder import ActivityRecorder, write_report
from sessions_app.gateway.proxy.access_types import AccessUnknown
from sessions_app.models import GatewayReport, Interaction, SessionIdle
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A steady clock; its one number is moved on."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def seen(gateway: ActivityRecorder) -> bool:
    found, gateway._seen = bool(gateway._seen), {}
    return found


def test_opening_a_page_is_work_and_what_it_polls_is_not(passing: list[float]) -> None:
    gateway, session_id = ActivityRecorder(), uuid4()
    gateway.record_request(session_id, "GET", "/lab", is_navigation=True)
    assert seen(gateway)
    for _turn in range(50):
        passing[0] += 10
        for path in ("/api/kernels", "/api/sessions", "/api/terminals"):
            gateway.record_request(session_id, "GET", path, is_navigation=False)
    assert not seen(gateway)
    gateway.record_request(session_id, "PUT", "/api/contents/a.ipynb", is_navigation=False)
    assert seen(gateway)
    assert passing[0] > 1000 + LEARNING_S
    gateway.record_request(session_id, "GET", "/files/new.csv", is_navigation=False)
    assert seen(gateway)


def test_typing_over_a_websocket_is_work_and_a_sign_of_life_is_not(passing: list[float]) -> None:
    gateway = ActivityRecorder()
    websocket_listener = gateway.websocket_listener(uuid4())
    for _turn in range(3):
        websocket_listener(13)
        passing[0] += 30
    seen(gateway)
    for _turn in range(20):
        websocket_listener(13)
        passing[0] += 30
    assert not seen(gateway)
    for _key in range(3):
        websocket_listener(9)
        passing[0] += 0.2
    assert seen(gateway)


def test_what_is_in_mind_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SESSIONS", 2)
    gateway = ActivityRecorder()
    for _session in range(3):
        gateway.record_request(uuid4(), "GET", "/", is_navigation=False)
    assert len(gateway._activity) == 1


def test_failed_report_is_repeated_later(monkeypatch: pytest.MonkeyPatch) -> None:
    session = make_place().run()
    gateway = ActivityRecorder()
    gateway.record(session.pk, Interaction.TERMINAL)

    def fail(*_arguments: object) -> None:
        raise OperationalError

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_report", fail)
        with pytest.raises(AccessUnknown):
            asyncio.run(gateway.report())

    async def live() -> None:
        await gateway.start()
        await asyncio.sleep(0)
        await gateway.stop()

    asyncio.run(live())
    assert SessionIdle.objects.get(session=session).interaction == "terminal"
    assert not GatewayReport.objects.exists()


def test_a_report_that_is_on_its_way_at_the_end_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, begun, may_go_on, steps = ActivityRecorder(), threading.Event(), threading.Event(), list[str]()

    def write_slowly(*told: Any) -> None:
        steps.append("begins")
        begun.set()
        assert may_go_on.wait(5)
        write_report(*told)
        steps.append("ends")

    async def live() -> None:
        await gateway.start()
        assert await asyncio.to_thread(begun.wait, 5)
        asyncio.get_running_loop().call_later(
            0.1, may_go_on.set
        )  # who does not wait has told the last by then
        await gateway.stop()

    monkeypatch.setattr(module, "write_report", write_slowly)
    asyncio.run(live())
    assert steps == ["begins", "ends"] * 2
    assert not GatewayReport.objects.exists()


def test_gateway_report_is_one_row_per_process() -> None:
    write_report("one", {}, 0.0)
    write_report("one", {}, 0.0)
    assert GatewayReport.objects.count() == 1
