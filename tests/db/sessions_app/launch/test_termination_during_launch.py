"""Termination during a launch takes effect after it; the reconciler does not disturb a launch."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.db import connections

from agents.runtime.simulated.runtime import SimulatedRuntime
from common.actors import SYSTEM
from common.messaging import dispatch
from common.messaging.dispatch import TaskName
from sessions_app import tasks
from sessions_app.core.states import Reason, Status
from sessions_app.launch import launcher
from sessions_app.models import ComputeSession
from sessions_app.termination.service import begin_termination
from tests.factories_sessions import make_place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]

Sent = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    messages: Sent = []
    monkeypatch.setattr(
        dispatch.current_app, "send_task", lambda name, *, kwargs, **_: messages.append((name, kwargs))
    )
    return messages


def stop_as_another(session_id: UUID) -> None:
    """A person ends it, and the worker that hears of it finds somebody at work."""

    def stop() -> None:
        try:
            begin_termination(session_id, reason=Reason.USER_REQUESTED, actor=SYSTEM)
            tasks.terminate_session(str(session_id))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as another:
        another.submit(stop).result()
    assert ComputeSession.objects.get(pk=session_id).status == Status.TERMINATING


def before(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, act: Callable[[], None]) -> None:
    """`act`, once, when `name` of `owner` is called."""
    work, is_due = getattr(owner, name), [True]

    def work_after(*given: Any, **named: Any) -> Any:
        if is_due and is_due.pop():
            act()
        return work(*given, **named)

    monkeypatch.setattr(owner, name, work_after)


def hear_ends_of_launches(sent: Sent) -> None:
    """Run what was sent last: the message of the person was heard before, in vain."""
    name, kwargs = sent[-1]
    assert name == TaskName.TERMINATE_SESSION.value
    tasks.terminate_session(**kwargs)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        pytest.param(SimulatedRuntime, "start_container", id="before-it-runs"),
        pytest.param(launcher, "start_own_apps", id="once-it-runs"),
    ],
)
def test_a_session_stopped_while_it_is_launched_ends_when_its_launch_does(
    sent: Sent, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    place = make_place()
    session = place.place()
    before(monkeypatch, owner, name, lambda: stop_as_another(session.pk))
    sent.clear()

    launcher.launch_session(session.pk)
    assert place.fresh(session).status == Status.TERMINATING
    hear_ends_of_launches(sent)
    assert place.fresh(session).status == Status.TERMINATED
    assert place.runtime.list_containers({}) == []


def test_a_launch_that_nobody_stopped_asks_for_no_end(sent: Sent) -> None:
    session = make_place().place()
    sent.clear()
    launcher.launch_session(session.pk)
    assert TaskName.TERMINATE_SESSION not in {name for name, _ in sent}
