"""A concurrent change of an admission input is either counted or waits until the session is written."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import pytest
from django.db import connection

from accounts.budgets.service import create_budget, update_budget
from accounts.core.budget_arithmetic import Period, Unit
from accounts.core.limits import Level
from accounts.core.roles import Role
from accounts.credentials.keypairs import create_keypair, revoke_keypair, update_keypair
from accounts.models import Budget, KeyPair, Membership, ResourcePolicy
from accounts.policies.service import assign_policy, update_policy
from accounts.tenancy import archiving, service
from accounts.tenancy.membership_sync import _apply_to_user
from accounts.tenancy.offboarding import close_user
from agents.models import GroupGrant, ResourceGroup
from agents.resource_groups.service import (
    delete_resource_group,
    grant_resource_group,
    revoke_resource_group,
    update_resource_group,
)
from common import clock
from common.actors import SYSTEM, Actor, ActorKind
from common.errors import BerthError, Conflict
from images.models import ContainerImage, Registry
from images.services import set_image_enabled
from scheduler.tick import run_tick
from sessions_app.admission.load import load_admission_inputs
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import SessionRequest, parse_request
from sessions_app.models import ComputeSession
from tests import factories
from tests.db.scheduler.test_concurrent_ticks import held_open
from tests.elsewhere import elsewhere
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place, make_place
from tests.waiting import wait_until
from vfolders.models import VFolder
from vfolders.trash import delete_folder

pytestmark = pytest.mark.django_db(transaction=True)
Change = Callable[[Place], object]


def archive_project(place: Place) -> None:
    archiving.update_project(actor=SYSTEM, project_id=place.project.pk, is_active=False)


def rename_project(place: Place) -> None:
    archiving.update_project(actor=SYSTEM, project_id=place.project.pk, name="another")


def close_domain(place: Place) -> None:
    archiving.update_domain(actor=SYSTEM, domain_id=place.project.domain_id, is_active=False)


def remove_member(place: Place) -> None:
    service.remove_member(actor=SYSTEM, project=place.project, user=place.owner)


def leave_by_rule(place: Place) -> None:
    _apply_to_user(place.project.pk, place.owner.pk)


def delete_membership(place: Place) -> None:
    Membership.objects.filter(user=place.owner).delete()


def close_account(place: Place) -> None:
    close_user(actor=SYSTEM, user_id=place.owner.pk)


def make_group_private(place: Place) -> None:
    update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"is_public": False})


def revoke_grant(place: Place) -> None:
    grant = GroupGrant.objects.get(group=place.group)
    revoke_resource_group(actor=SYSTEM, group_id=place.group.pk, grant_id=grant.pk)


def take_no_such_type(place: Place) -> None:
    update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"session_types": ["batch"]})


def limit_group(place: Place) -> None:
    limits = [{"name": "little", "each": {"cpu": 1}}]
    update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"limits": limits})


def delete_group(place: Place) -> None:
    place.agent.delete()
    delete_resource_group(actor=SYSTEM, group_id=place.group.pk)


def disable_image(place: Place) -> None:
    set_image_enabled(actor=SYSTEM, image_id=place.image.pk, is_enabled=False)


def ask_more_for_image(place: Place) -> None:
    ContainerImage.objects.filter(pk=place.image.pk).update(min_slots={"cpu": 2000})


def disable_registry(place: Place) -> None:
    registry = Registry.objects.get()
    registry.is_enabled = False
    registry.save()


def forbid_all(place: Place) -> None:
    update_policy(
        actor=SYSTEM, policy_id=ResourcePolicy.objects.get(name="own").pk, limits={"max_sessions": 0}
    )


def allow_another_image(place: Place) -> None:
    limits = {"allowed_images": ["another:*"]}
    update_policy(actor=SYSTEM, policy_id=ResourcePolicy.objects.get(name="own").pk, limits=limits)


def assign_strict(target: Callable[[Place], object]) -> Change:
    def change(place: Place) -> None:
        policy = ResourcePolicy.objects.get(name="strict")
        assign_policy(actor=SYSTEM, target=target(place), policy=policy)  # type: ignore[arg-type]

    change.__name__ = f"assign_strict_policy_to_{target.__name__}"
    return change


def domain(place: Place) -> object:
    return place.project.domain


def project(place: Place) -> object:
    return place.project


def user(place: Place) -> object:
    return place.owner


def keypair(place: Place) -> KeyPair:
    return KeyPair.objects.get()


def suspend_token(place: Place) -> None:
    update_keypair(actor=factories.actor_for(place.owner), keypair_id=keypair(place).pk, is_active=False)


def narrow_token(place: Place) -> None:
    update_keypair(actor=factories.actor_for(place.owner), keypair_id=keypair(place).pk, scopes=["read"])


def revoke_token(place: Place) -> None:
    revoke_keypair(actor=SYSTEM, user_id=place.owner.pk, keypair_id=keypair(place).pk)


def spend_budget_of_project(place: Place) -> None:
    make_budget(Level.PROJECT, place.project.pk)


def spend_budget_of_user(place: Place) -> None:
    make_budget(Level.USER, place.owner.pk)


def harden_budget(place: Place) -> None:
    update_budget(actor=SYSTEM, budget_id=Budget.objects.get().pk, changes={"is_hard": True})


def make_budget(level: Level, owner_id: int, *, is_hard: bool = True) -> Budget:
    return create_budget(
        actor=SYSTEM, level=level, owner_id=owner_id, unit=Unit.MONEY, amount=Decimal(0), period=Period.MONTH,
        is_hard=is_hard,
    )  # fmt: skip


CHANGES = [
    archive_project, rename_project, close_domain, remove_member, leave_by_rule, delete_membership, close_account,
    make_group_private, revoke_grant, take_no_such_type, limit_group, delete_group, disable_image,
    ask_more_for_image, disable_registry, forbid_all, allow_another_image, assign_strict(domain),
    assign_strict(project), assign_strict(user), assign_strict(keypair), suspend_token,
    narrow_token, revoke_token, spend_budget_of_project, spend_budget_of_user, harden_budget,
]  # fmt: skip
REFUSED_BESIDE_A_SESSION = {archive_project, close_domain, delete_group}


def prepared(change: Change) -> Place:
    """A place whose owner may enqueue a session until `change` is done."""
    place = make_place()
    factories.make_user(role=Role.SUPERADMIN)
    ResourcePolicy.objects.create(name="strict", max_sessions=0)
    assign_policy(actor=SYSTEM, target=place.owner, policy=ResourcePolicy.objects.create(name="own"))
    create_keypair(actor=factories.actor_for(place.owner), name="robot")
    if change is revoke_grant:
        ResourceGroup.objects.update(is_public=False)
        grant_resource_group(actor=SYSTEM, group_id=place.group.pk, grantee=place.project)
    if change is leave_by_rule:
        Membership.objects.update(is_by_rule=True)
    if change is disable_registry:
        registry = Registry.objects.create(name="r", host="r.example", url="https://r.example")
        ContainerImage.objects.update(registry=registry)
    if change is harden_budget:
        make_budget(Level.USER, place.owner.pk, is_hard=False)
    return place


def enqueue(place: Place, **changes: object) -> ComputeSession:
    """As a program would, by the token."""
    actor = Actor(
        kind=ActorKind.TOKEN,
        user_id=place.owner.pk,
        label=place.owner.email,
        domain_id=place.owner.domain_id,
        keypair_id=KeyPair.objects.get().pk,
    )
    return enqueue_session(actor=actor, request=parse_request(place.request(**changes)))


def waiting_for_locks() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])


class Beside:
    """Work of another connection at the same time."""

    def __init__(self, job: Callable[[], object]) -> None:
        self._job, self.error = job, None
        self._thread = threading.Thread(target=lambda: elsewhere(self._run))
        self._thread.start()

    def _run(self) -> None:
        try:
            self._job()
        except BerthError as error:
            self.error: BerthError | None = error

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def wait(self) -> BerthError | None:
        """Return what it was refused with, once it has ended."""
        self._thread.join(timeout=20)
        assert self.is_done
        return self.error


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_commits_first_counts(change: Change) -> None:
    place = prepared(change)
    with ExitStack() as uncommitted:
        uncommitted.enter_context(held_open(lambda: change(place)))
        admission = Beside(lambda: enqueue(place))
        wait_until(lambda: waiting_for_locks() == 1 or admission.is_done)
        assert not admission.is_done, "it decided by what somebody else was about to change"
        uncommitted.close()
    assert admission.wait() is not None
    assert not ComputeSession.objects.exists()


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_waits_for_a_session_that_is_being_written(change: Change) -> None:
    place = prepared(change)
    with ExitStack() as uncommitted:
        uncommitted.enter_context(held_open(lambda: enqueue(place)))
        changing = Beside(lambda: change(place))
        wait_until(lambda: waiting_for_locks() == 1 or changing.is_done)
        assert not changing.is_done, "it changed what somebody else was deciding by"
        uncommitted.close()
    is_refused = isinstance(changing.wait(), Conflict)
    assert is_refused == (change in REFUSED_BESIDE_A_SESSION)
    assert ComputeSession.objects.count() == 1


@pytest.fixture
def folder(tmp_path: Path) -> VFolder:
    """One of another project of the only person who may enqueue."""
    make_storage_host(tmp_path)
    place = prepared(archive_project)
    other = factories.make_project(domain=place.project.domain)
    service.add_member(actor=SYSTEM, project=other, user=place.owner)
    folder = make_folder(place.owner, project=other)
    folder.place = place  # type: ignore[attr-defined]
    return folder


def archive_its_project(folder: VFolder) -> None:
    archiving.update_project(actor=SYSTEM, project_id=folder.project_id or 0, is_active=False)


def leave_its_project(folder: VFolder) -> None:
    assert folder.project is not None
    assert folder.creator is not None
    service.remove_member(actor=SYSTEM, project=folder.project, user=folder.creator)


def remove_it(folder: VFolder) -> None:
    delete_folder(actor=SYSTEM, folder_id=folder.pk)


@pytest.mark.parametrize("change", [archive_its_project, leave_its_project, remove_it])
def test_folders_that_are_mounted_are_inputs_too(folder: VFolder, change: Callable[[VFolder], None]) -> None:
    place = folder.place  # type: ignore[attr-defined]
    mounts = [{"folder": str(folder.pk)}]
    with ExitStack() as uncommitted:
        uncommitted.enter_context(held_open(lambda: change(folder)))
        admission = Beside(lambda: enqueue(place, mounts=mounts))
        wait_until(lambda: waiting_for_locks() == 1 or admission.is_done)
        assert not admission.is_done
        uncommitted.close()
    assert admission.wait() is not None
    assert not ComputeSession.objects.exists()


def test_sessions_that_mount_one_folder_are_admitted_side_by_side(folder: VFolder) -> None:
    assert folder.project is not None
    place = folder.place  # type: ignore[attr-defined]
    colleague = factories.make_user(member_of=place.project)
    service.add_member(actor=SYSTEM, project=folder.project, user=colleague)
    request = parse_request(place.request(mounts=[{"folder": str(folder.pk)}]))
    with held_open(lambda: lock_as_admitted(place, request)):
        beside = Beside(lambda: enqueue_session(actor=factories.actor_for(colleague), request=request))
        wait_until(lambda: beside.is_done or waiting_for_locks() > 0)
        assert beside.is_done
    assert ComputeSession.objects.count() == 1


def test_what_ticks_and_sign_ins_write_waits_for_no_session() -> None:
    place = prepared(archive_project)
    with held_open(lambda: enqueue(place)):
        KeyPair.objects.update(last_used_at=clock.now())
        elsewhere(lambda: run_tick(place.group.pk))
    assert ComputeSession.objects.count() == 1


def test_sessions_are_admitted_side_by_side() -> None:
    place = prepared(archive_project)
    colleague = factories.make_user(member_of=place.project)
    with held_open(lambda: lock_as_admitted(place)):
        place.enqueue(by=colleague)
    assert ComputeSession.objects.count() == 1


def lock_as_admitted(place: Place, request: SessionRequest | None = None) -> None:
    """Hold what an admission holds until it writes."""
    request = request or parse_request(place.request())
    load_admission_inputs(factories.actor_for(place.owner), [request], is_locked=True)
