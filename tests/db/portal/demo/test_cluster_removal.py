"""Removing a simulated cluster keeps real users, their rows, and clusters of other runs."""

from itertools import islice
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from accounts.core.roles import Role
from accounts.models import Domain, LimitUse, Membership, Project, User
from agents.machines.simulation import MachineShape
from agents.models import Agent, ResourceGroup
from agents.resource_groups.service import create_resource_group
from common.actors import SYSTEM
from common.audit import audit_log
from common.messaging.redis import client
from common.models import AuditEntry
from portal.demo import simulated_cluster
from scheduler.tick import run_tick
from sessions_app.admission.service import enqueue_session
from sessions_app.core.states import Status
from sessions_app.launch import launcher
from sessions_app.models import ComputeSession
from tests import factories
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def default_group() -> None:
    create_resource_group(actor=SYSTEM, name="default", is_default=True)


@pytest.fixture
def group() -> ResourceGroup:
    return make_group()


def make_group(name: str = simulated_cluster.GROUP) -> ResourceGroup:
    """With a machine, and two sessions of people who do not exist, one of which is launched."""
    group = simulated_cluster.make_cluster(count=1, shape=MachineShape(), group_name=name)
    requests = simulated_cluster.workload(simulated_cluster.simulated_people(group), seed=1)
    for actor, request in islice(requests, 2):
        enqueue_session(actor=actor, request=request)
    launcher.launch_session(run_tick(group.pk)[0])
    return group


def ours() -> list[object]:
    people = User.objects.filter(email__endswith=simulated_cluster.OURS)
    lines = AuditEntry.objects.filter(actor_label__endswith=simulated_cluster.OURS)
    return [*people, *lines, *ComputeSession.objects.filter(owner__in=people)]


def shelves() -> list[bytes]:
    return list(client().scan_iter(match=f"berth:simulated:{settings.BERTH_INSTALLATION}:*"))


def test_a_real_person_in_a_simulated_domain_stays_there(group: ResourceGroup) -> None:
    domain = Domain.objects.get(name="simulated-0")
    person = factories.make_user(domain=domain)

    cleared = simulated_cluster.clear()

    assert cleared.kept == ("simulated-0",)
    assert User.objects.get(pk=person.pk).domain == domain
    assert list(Domain.objects.filter(title=simulated_cluster.TITLE)) == [domain]
    assert not ours()
    assert simulated_cluster.clear() == simulated_cluster.Cleared(0, 0, 0, kept=("simulated-0",))


def test_a_project_in_which_a_real_person_works_stays_with_all_that_is_theirs(
    group: ResourceGroup, tmp_path: Path
) -> None:
    make_storage_host(tmp_path)
    place = make_place()
    place.project = Project.objects.get(name="simulated-1")
    place.owner = factories.make_user(member_of=place.project)
    mine, folder = place.run(), make_folder(place.owner, project=place.project)
    used = LimitUse.objects.filter(scope_id=place.project.pk, level="project", resource="sessions")

    cleared = simulated_cluster.clear()

    assert (cleared.agents, cleared.sessions) == (1, 2)
    assert cleared.kept == ("simulated-1", "simulated-1/simulated-1")
    assert place.fresh(mine).status == Status.RUNNING
    folder.refresh_from_db()
    assert Membership.objects.filter(user=place.owner, project=place.project).exists()
    assert used.get().used == 1
    assert not ours()


def test_what_others_have_made_in_a_simulated_domain_stays(group: ResourceGroup) -> None:
    domain = Domain.objects.get(name="simulated-2")
    project = Project.objects.create(domain=domain, name="vision")
    simulated_cluster.clear()
    assert list(Project.objects.filter(domain=domain)) == [project]


def test_people_are_made_anew_in_domains_that_were_kept(group: ResourceGroup) -> None:
    factories.make_user(member_of=Project.objects.get(name="simulated-3"))
    simulated_cluster.clear()

    members = simulated_cluster.simulated_people(make_group()).members

    assert len(members) == simulated_cluster.PEOPLE
    assert Domain.objects.filter(title=simulated_cluster.TITLE).count() == simulated_cluster.DOMAINS
    assert simulated_cluster.clear().kept == ("simulated-3", "simulated-3/simulated-3")


def test_lines_of_the_access_log_about_what_real_people_did_there_stay(group: ResourceGroup) -> None:
    admin = factories.make_user(role=Role.SUPERADMIN)
    domain = Domain.objects.get(name="simulated-0")
    audit_log.record(actor=factories.actor_for(admin), action="accounts.update_domain", target=domain)
    line = AuditEntry.objects.get(action="accounts.update_domain")
    assert line.domain_id == domain.pk

    simulated_cluster.clear()

    assert AuditEntry.objects.filter(pk=line.pk).exists()
    assert not ours()


def test_the_end_of_a_run_leaves_what_another_keeps() -> None:
    kept = make_group("kept")
    before = shelves()
    make_group("mine")

    cleared = simulated_cluster.clear_group("mine")

    assert cleared == simulated_cluster.Cleared(1, 0, 2)
    assert list(Agent.objects.values_list("name", flat=True)) == ["kept-00001"]
    assert kept.sessions.count() == 2
    assert User.objects.filter(email__endswith=simulated_cluster.OURS).count() == simulated_cluster.PEOPLE
    assert sorted(shelves()) == sorted(before) != []
    assert simulated_cluster.clear_group("kept") == simulated_cluster.Cleared(1, 0, 2)
    assert not Domain.objects.filter(title=simulated_cluster.TITLE).exists()
    assert not ours()


def test_a_run_that_ends_clears_its_own_group_alone() -> None:
    make_group("kept")
    call_command(
        "simulated_cluster", "simulate", "--agents", "1", "--group", "mine", "--load", "1", "--load-seconds", "0.01"
    )  # fmt: skip
    assert list(Agent.objects.values_list("name", flat=True)) == ["kept-00001"]
    assert not ResourceGroup.objects.filter(name="mine").exists()
    assert ComputeSession.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_clearing_while_another_run_submits_says_what_to_do(
    group: ResourceGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete, session = ResourceGroup.delete, make_place().enqueue()

    def delete_too_late(self: ResourceGroup) -> object:
        ComputeSession.objects.filter(pk=session.pk).update(resource_group=self)
        return delete(self)

    with monkeypatch.context() as patched:
        patched.setattr(ResourceGroup, "delete", delete_too_late)
        with pytest.raises(CommandError, match="submitted there still"):
            call_command("simulated_cluster", "clear")
    call_command("simulated_cluster", "clear")
    assert not ours()
    assert not ResourceGroup.objects.filter(pk=group.pk).exists()
