"""The command that fills a portal with demo load for benchmarks."""

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F, Sum

from accounts.budgets.selectors import read_budget_states
from accounts.models import Budget
from agents.models import Agent, AgentSlot
from common.models import AuditEntry
from sessions_app.models import ComputeSession, Kernel, KernelAllocation
from tests.factories import make_user
from vfolders.models import VFolder

pytestmark = pytest.mark.django_db


def test_it_makes_as_much_as_is_asked_for_once() -> None:
    call_command("seed_demo_load", sessions=120, agents=30, folders=20, audit=40, verbosity=0)

    assert (ComputeSession.objects.count(), Agent.objects.count(), VFolder.objects.count()) == (120, 30, 20)
    assert Kernel.objects.count() == 120
    assert AuditEntry.objects.filter(request_id__startswith="0000").count() == 40
    assert all(state.spent for state in read_budget_states(Budget.objects.exclude(user=None)))
    assert 0 < ComputeSession.objects.live().count() < 60
    held = KernelAllocation.objects.filter(slot_name="cpu").aggregate(Sum("amount"))["amount__sum"]
    assert AgentSlot.objects.filter(slot_name="cpu").aggregate(Sum("occupied"))["occupied__sum"] == held
    assert not AgentSlot.objects.filter(occupied__gt=F("capacity")).exists()
    with pytest.raises(CommandError, match="filled before"):
        call_command("seed_demo_load", verbosity=0)


def test_it_leaves_a_portal_with_real_people_alone() -> None:
    make_user(email="ada@hospital.example")

    with pytest.raises(CommandError, match="Real people"):
        call_command("seed_demo_load", sessions=1, agents=1, folders=1)

    call_command("seed_demo_load", sessions=1, agents=1, folders=1, audit=1, force=True, verbosity=0)
    assert ComputeSession.objects.count() == 1


def test_it_refuses_what_would_not_fit() -> None:
    with pytest.raises(CommandError, match="at most 50"):
        call_command("seed_demo_load", sessions=51, agents=1, folders=0)


def test_without_machines_its_sessions_are_nowhere() -> None:
    call_command("seed_demo_load", sessions=5, agents=0, folders=0, audit=0, verbosity=0)

    assert set(Kernel.objects.values_list("agent", flat=True)) == {None}
