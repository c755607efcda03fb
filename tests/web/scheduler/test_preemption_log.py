"""Past preemptions for superadmins and monitors, on the scheduler's page and by REST."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from accounts.core.roles import Role
from accounts.models import User
from agents.models import ResourceGroup
from common import clock
from sessions_app.models import ComputeSession, Preemption, PreemptionOutcome
from tests.factories import api_client, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
Browser = Callable[[User], Client]


def leave(place: Place, name: str, outcome: str = "") -> Preemption:
    low, high = place.run(name=name, resources={"cpu": 1, "mem": "512m"}), place.enqueue(name=f"for-{name}")
    now = clock.now()
    return Preemption.objects.create(
        session=low, by=high, agent=place.agent, decided_at=now, ends_at=now + timedelta(minutes=5), outcome=outcome
    )  # fmt: skip


def test_each_is_told_with_what_came_of_it(place: Place, browser_of: Browser) -> None:
    overseer = make_user(role=Role.MONITOR)
    page = reverse("resource-group-scheduler", args=[place.group.pk])
    assert "No recent preemptions." in browser_of(overseer).get(page).content.decode()

    leave(place, "open")
    leave(place, "gone", PreemptionOutcome.ENDED)
    leave(place, "kept", PreemptionOutcome.SPARED)
    shown = browser_of(overseer).get(page).content.decode()
    for words in ("It ends in", "It has ended", "Preemption cancelled", "for-gone</a>", place.agent.name):
        assert words in shown

    address = reverse("api-preemptions", args=[place.group.pk])
    rows = api_client(overseer).get(address).json()["results"]
    assert [(row["name"], row["by_name"], row["outcome"]) for row in rows] == [
        ("kept", "for-kept", "spared"),
        ("gone", "for-gone", "ended"),
        ("open", "for-open", "open"),
    ]
    assert rows[0]["agent"] == place.agent.name
    assert ComputeSession.objects.filter(pk=rows[0]["by"], name="for-kept").exists()


def test_each_group_has_its_own(place: Place) -> None:
    leave(place, "gone", PreemptionOutcome.ENDED)
    other = ResourceGroup.objects.create(name="other")
    chief = api_client(make_user(role=Role.SUPERADMIN))
    assert chief.get(reverse("api-preemptions", args=[other.pk])).json()["results"] == []
