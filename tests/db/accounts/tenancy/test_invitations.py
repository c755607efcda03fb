"""Invitations, and sign-up with an address of the domain."""

from datetime import timedelta
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.test import TestCase

from accounts import tasks
from accounts.core.roles import Role
from accounts.core.sign_up import InvitationState, SignUp
from accounts.models import Domain, Invitation, MailDomain, ResourcePolicy, User
from accounts.tenancy import archiving, invitations, offboarding, service
from common import clock
from common.actors import ANONYMOUS, SYSTEM
from common.errors import BerthError, Conflict, InvalidInput, NotFound, PermissionDenied
from common.models import AuditEntry
from tests.conftest import People
from tests.db.accounts.tenancy.test_users import together
from tests.factories import PASSWORD, actor_for, make_project, make_user
from tests.factories_entrance import make_invitation, open_domain

pytestmark = pytest.mark.django_db

ADA = "ada@berth.example"


def accept(code: str, **wanted: Any) -> User:
    return invitations.accept_invitation(actor=ANONYMOUS, code=code, **{"password": PASSWORD, **wanted})


@pytest.fixture
def with_mail(settings: Any) -> None:
    settings.BERTH_MAIL = True


def test_accepted_invitation_gives_projects_role_and_policy(people: People) -> None:
    policy = ResourcePolicy.objects.create(name="small")
    wanted = {"email": "Ada@berth.example", "role": Role.DOMAIN_ADMIN, "policy": policy}
    invitation, code = make_invitation(
        people.domain, people.superadmin, projects=[people.project.name], **wanted
    )
    user = accept(code, name="Ada", email="somebody@else.example")
    assert (user.email, user.name, user.domain, user.role) == (ADA, "Ada", people.domain, Role.DOMAIN_ADMIN)
    assert list(user.projects.all()) == [people.project]
    user.refresh_from_db()
    assert user.policy == policy
    assert user.check_password(PASSWORD)
    invitation.refresh_from_db()
    assert invitations.current_state(invitation) is InvitationState.USED
    line = AuditEntry.objects.get(action="accounts.accept_invitation")
    assert line.changes == {"user": ADA}
    assert AuditEntry.objects.filter(action="accounts.create_user", actor_id=people.superadmin.pk).exists()


def test_unproven_address_is_stored_unverified(people: People) -> None:
    _, code = make_invitation(people.domain, people.domain_admin, uses=2)
    user = accept(code, email=ADA)
    assert EmailAddress.objects.get(user=user).verified is False
    accept(code, email="grace@berth.example")
    with pytest.raises(Conflict):
        accept(code, email="third@berth.example")


def test_invitation_secret_is_stored_as_a_hash(people: People) -> None:
    invitation, code = make_invitation(people.domain, people.domain_admin)
    row = Invitation.objects.values().get(pk=invitation.pk)
    assert code not in str(row)
    assert code not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("by", "wanted", "refusal"),
    [
        ("member", {}, PermissionDenied),
        ("project_admin", {}, PermissionDenied),
        ("stranger", {}, NotFound),
        ("domain_admin", {"role": Role.SUPERADMIN}, PermissionDenied),
        ("domain_admin", {"projects": ["no-such"]}, NotFound),
        ("domain_admin", {"email": "nowhere"}, InvalidInput),
        ("domain_admin", {"email": ADA, "uses": 2}, InvalidInput),
        ("domain_admin", {"uses": 10**6}, InvalidInput),
        ("domain_admin", {"days": 0}, InvalidInput),
    ],
)
def test_invitations_are_limited_to_permissions_of_the_inviter(
    people: People, by: str, wanted: dict[str, Any], refusal: type[BerthError]
) -> None:
    open_domain(people.domain)
    with pytest.raises(refusal):
        make_invitation(people.domain, getattr(people, by), **wanted)
    assert not Invitation.objects.exists()


def test_a_policy_is_given_by_superadmins_alone(people: People) -> None:
    policy = ResourcePolicy.objects.create(name="large")
    with pytest.raises(PermissionDenied):
        make_invitation(people.domain, people.domain_admin, policy=policy)


def test_a_closed_domain_invites_nobody_and_known_people_need_none(people: People) -> None:
    with pytest.raises(Conflict) as refusal:
        invitations.create_invitation(actor=actor_for(people.domain_admin))
    assert people.domain.name in refusal.value.message
    with pytest.raises(Conflict):
        make_invitation(people.domain, people.domain_admin, email=people.member.email)


def demote(people: People, invitation: Invitation) -> None:
    service.update_user(actor=SYSTEM, user_id=people.domain_admin.pk, role=Role.USER)


def close_inviter(people: People, invitation: Invitation) -> None:
    offboarding.close_user(actor=SYSTEM, user_id=people.domain_admin.pk)


def close_sign_up(people: People, invitation: Invitation) -> None:
    open_domain(people.domain, SignUp.CLOSED)


def revoke(people: People, invitation: Invitation) -> None:
    for _twice in range(2):
        invitations.revoke_invitation(actor=actor_for(people.domain_admin), invitation_id=invitation.pk)


def expire(people: People, invitation: Invitation) -> None:
    Invitation.objects.update(expires_at=clock.now() - timedelta(seconds=1))


@pytest.mark.parametrize("happens", [demote, close_inviter, close_sign_up, revoke, expire])
def test_an_invitation_is_void_once_its_ground_is_gone(people: People, happens: Any) -> None:
    invitation, code = make_invitation(people.domain, people.domain_admin, email=ADA)
    assert invitations.find_open_invitation(code) == invitation
    happens(people, invitation)
    with pytest.raises(Conflict):
        invitations.find_open_invitation(code)
    with pytest.raises(Conflict):
        accept(code)
    assert not User.objects.filter(email=ADA).exists()


def test_invitation_is_void_if_its_maker_lost_the_project(people: People) -> None:
    _, code = make_invitation(people.domain, people.domain_admin, email=ADA, projects=[people.project.name])
    other = people.stranger.domain
    type(people.project).objects.filter(pk=people.project.pk).update(domain=other)
    with pytest.raises(Conflict):
        accept(code)


def test_an_archived_project_is_left_out(people: People) -> None:
    project = make_project(people.domain)
    _, code = make_invitation(people.domain, people.domain_admin, email=ADA, projects=[project.name])
    archiving.update_project(actor=SYSTEM, project_id=project.pk, is_active=False)
    assert not accept(code).projects.exists()


def test_a_weak_password_uses_nothing_up(people: People) -> None:
    _, code = make_invitation(people.domain, people.domain_admin, email=ADA)
    with pytest.raises(InvalidInput):
        accept(code, password="short")
    assert accept(code).email == ADA


def test_others_see_no_invitation(people: People) -> None:
    invitation, _ = make_invitation(people.domain, people.domain_admin)
    for other in (people.stranger, people.member, people.project_admin):
        with pytest.raises(NotFound):
            invitations.access_invitation(actor_for(other), invitation.pk)
    with pytest.raises(NotFound):
        invitations.find_open_invitation("absent")


@pytest.mark.django_db(transaction=True)
def test_concurrent_sign_ups_with_one_address_succeed_once() -> None:
    domain = open_domain(Domain.objects.create(name="race"))
    admin = make_user(domain=domain, role=Role.DOMAIN_ADMIN)
    other = make_user(domain=domain, role=Role.DOMAIN_ADMIN)
    codes = [make_invitation(domain, inviter)[1] for inviter in (admin, other)]
    results = together(*[lambda code=code: accept(code, email=ADA) for code in codes])
    assert sorted(type(result).__name__ for result in results) == ["InvalidInput", "User"]
    assert next(each for each in results if isinstance(each, InvalidInput)).fields["email"]


@pytest.mark.django_db(transaction=True)
def test_one_link_opened_by_many_at_once_makes_as_many_accounts_as_it_may(people: People) -> None:
    _, code = make_invitation(people.domain, people.domain_admin, uses=2)
    steps = [lambda number=number: accept(code, email=f"p{number}@berth.example") for number in range(5)]
    results = together(*steps)
    assert sum(isinstance(result, User) for result in results) == 2
    assert sum(isinstance(result, Conflict) for result in results) == 3


# Signing up


@pytest.mark.usefixtures("with_mail")
def test_an_address_of_the_domain_signs_up_by_mail(people: People) -> None:
    open_domain(people.domain, SignUp.OPEN, "uni.example")
    with TestCase.captureOnCommitCallbacks(execute=True):
        invitations.request_sign_up(actor=ANONYMOUS, email="Ada@Uni.example")
    assert mail.outbox[0].to == ["ada@uni.example"]
    code = mail.outbox[0].body.partition("/invitation/")[2].split("/")[0]
    user = accept(code, email="other@uni.example")
    assert (user.email, user.domain, user.role) == ("ada@uni.example", people.domain, Role.USER)
    assert EmailAddress.objects.get(user=user).verified is True
    assert not invitations.visible_invitations(actor_for(people.superadmin)).exists()


@pytest.mark.usefixtures("with_mail")
def test_last_sign_up_mail_counts_and_known_users_are_told_by_mail(people: People) -> None:
    open_domain(people.domain, SignUp.OPEN, "uni.example", "berth.example")
    with TestCase.captureOnCommitCallbacks(execute=True):
        for _twice in range(2):
            invitations.request_sign_up(actor=ANONYMOUS, email="ada@uni.example")
        invitations.request_sign_up(actor=ANONYMOUS, email=people.member.email)
    assert Invitation.objects.count() == 1
    assert "You have one already" in str(mail.outbox[2].body)


@pytest.mark.usefixtures("with_mail")
@pytest.mark.parametrize("name", ["sub.uni.example", "uni.example.evil.example", "evil-uni.example"])
def test_other_addresses_are_refused(people: People, name: str) -> None:
    open_domain(people.domain, SignUp.OPEN, "uni.example")
    with pytest.raises(PermissionDenied):
        invitations.request_sign_up(actor=ANONYMOUS, email=f"ada@{name}")
    with pytest.raises(InvalidInput):
        invitations.request_sign_up(actor=ANONYMOUS, email="no address")


def test_without_mail_nobody_signs_up_and_the_reason_is_said(people: People) -> None:
    open_domain(people.domain, SignUp.OPEN, "uni.example")
    assert not invitations.is_sign_up_open()
    with pytest.raises(Conflict, match="cannot send mail"):
        invitations.request_sign_up(actor=ANONYMOUS, email="ada@uni.example")


@pytest.mark.usefixtures("with_mail")
def test_a_sign_up_ends_when_the_domain_closes_or_gives_the_address_away(people: People) -> None:
    open_domain(people.domain, SignUp.OPEN, "uni.example")
    with TestCase.captureOnCommitCallbacks(execute=True):
        invitations.request_sign_up(actor=ANONYMOUS, email="ada@uni.example")
    code = str(mail.outbox[0].body).partition("/invitation/")[2].split("/")[0]
    open_domain(people.domain, SignUp.OPEN, "lab.example")
    with pytest.raises(Conflict):
        accept(code)


@pytest.mark.usefixtures("with_mail")
def test_an_invitation_is_mailed_and_says_so_and_a_lost_mail_harms_nothing(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TestCase.captureOnCommitCallbacks(execute=True):
        invitation, code = make_invitation(people.domain, people.domain_admin, email=ADA)
    invitation.refresh_from_db()
    assert code in str(mail.outbox[0].body)
    assert invitation.mailed_at

    def refuse(message: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr("django.core.mail.EmailMessage.send", refuse)
    with TestCase.captureOnCommitCallbacks(execute=True):
        second, _ = make_invitation(people.domain, people.domain_admin, email="grace@berth.example")
    second.refresh_from_db()
    assert second.mailed_at is None


def test_an_address_is_at_home_in_one_domain(people: People) -> None:
    open_domain(people.domain, SignUp.OPEN, "Uni.example", "@lab.example", "lab.example")
    assert list(MailDomain.objects.values_list("name", flat=True)) == ["lab.example", "uni.example"]
    for names in (["uni.example"], ["-"], ["a.example"] * 2 + [f"x{n}.example" for n in range(60)], []):
        with pytest.raises(InvalidInput):
            open_domain(people.stranger.domain, SignUp.OPEN, *names)
    with pytest.raises(PermissionDenied):
        archiving.set_sign_up(
            actor=actor_for(people.domain_admin),
            domain_id=people.domain.pk,
            sign_up=SignUp.OPEN,
            mail_domains=[],
        )


def test_old_invitations_are_forgotten(people: People) -> None:
    make_invitation(people.domain, people.domain_admin)
    Invitation.objects.update(expires_at=clock.now() - timedelta(days=91))
    make_invitation(people.domain, people.domain_admin)
    tasks.purge_sign_ins()
    assert Invitation.objects.count() == 1
