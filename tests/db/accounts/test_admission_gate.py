"""Changes of rows that admissions lock are served in order and do not starve."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from django.db import transaction

from accounts import admission_gate
from accounts.admission_gate import enter_admission, precede_admissions
from accounts.core.roles import Role
from accounts.core.sign_up import SignUp
from accounts.models import Domain, User
from accounts.policies.service import delete_policy, update_policy
from accounts.tenancy import archiving
from accounts.tenancy.invitations import accept_invitation, create_invitation
from common.actors import ANONYMOUS, Actor
from common.errors import NotFound, PermissionDenied, Unavailable
from tests import factories
from tests.db.scheduler.test_concurrent_ticks import held_open
from tests.db.sessions_app.admission.test_locks import (
    Beside,
    Change,
    allow_another_image,
    archive_project,
    assign_strict,
    close_account,
    close_domain,
    disable_image,
    domain,
    enqueue,
    harden_budget,
    keypair,
    limit_group,
    lock_as_admitted,
    make_group_private,
    prepared,
    project,
    remove_member,
    rename_project,
    revoke_grant,
    spend_budget_of_user,
    suspend_token,
    user,
    waiting_for_locks,
)
from tests.factories_sessions import Place
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def accept_an_invitation(place: Place) -> None:
    inviter = factories.actor_for(User.objects.get(role=Role.SUPERADMIN))
    _made, url = create_invitation(actor=inviter, domain=place.project.domain.name)
    code = url.rstrip("/").rpartition("/")[2]
    accept_invitation(actor=ANONYMOUS, code=code, password=factories.PASSWORD, email="new@berth.example")


SHARED = [
    archive_project, rename_project, close_domain, make_group_private, revoke_grant, limit_group, disable_image,
    allow_another_image, assign_strict(domain), assign_strict(project), assign_strict(user), assign_strict(keypair),
    remove_member, close_account, suspend_token, spend_budget_of_user, harden_budget,
    accept_an_invitation,
]  # fmt: skip


@pytest.mark.parametrize("change", SHARED)
def test_a_change_of_what_many_share_is_not_overtaken_for_ever(change: Change) -> None:
    """Else it would never come about where submits overlap without pause."""
    place = prepared(change)
    Domain.objects.update(sign_up=SignUp.INVITATION)
    with ExitStack() as first:
        first.enter_context(held_open(lambda: lock_as_admitted(place)))
        changing = Beside(lambda: change(place))
        wait_until(lambda: waiting_for_locks() == 1)
        later = Beside(lambda: enqueue(place))
        wait_until(lambda: waiting_for_locks() == 2 or later.is_done)
        assert not later.is_done
        first.close()
    assert changing.wait() is None
    assert (later.wait() is None) == (change is accept_an_invitation)


@pytest.mark.parametrize(
    ("holder", "waiter"), [(precede_admissions, enter_admission), (enter_admission, precede_admissions)]
)
def test_nobody_waits_long_at_the_gate(
    holder: Callable[[], None], waiter: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_gate, "ENTER_WAIT_S", 0.1)
    monkeypatch.setattr(admission_gate, "PRECEDE_WAIT_S", 0.1)
    with held_open(holder), pytest.raises(Unavailable), transaction.atomic():
        waiter()


@pytest.mark.parametrize(
    "change",
    [
        lambda actor, place: update_policy(actor=actor, policy_id=place.owner.policy_id),
        lambda actor, place: delete_policy(actor=actor, policy_id=place.owner.policy_id),
        lambda actor, place: archiving.update_project(actor=actor, project_id=place.project.pk),
        lambda actor, place: archiving.purge_project(actor=actor, project_id=place.project.pk),
        lambda actor, place: archiving.update_domain(actor=actor, domain_id=place.project.domain_id),
        lambda actor, place: archiving.purge_domain(actor=actor, domain_id=place.project.domain_id),
    ],
)
def test_who_may_not_change_something_holds_nobody_up(change: Callable[[Actor, Place], object]) -> None:
    place = prepared(archive_project)
    stranger = factories.actor_for(factories.make_user())
    with held_open(lambda: enqueue(place)):
        refused = Beside(lambda: change(stranger, place))
        assert isinstance(refused.wait(), (NotFound, PermissionDenied))
