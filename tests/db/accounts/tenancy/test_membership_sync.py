"""Membership rules add and remove members, but never members who were added by hand."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.db import connection

from accounts.core.identity_providers import OnboardingRules
from accounts.core.roles import ProjectRole, Role
from accounts.models import Membership, MembershipRule, OffBoarding, Project, RuleFailure, User
from accounts.sign_in.federation import ProviderIdentity, admit_user
from accounts.tasks import follow_rules
from accounts.tenancy import membership_sync, service
from accounts.tenancy.membership_sync import (
    apply_all_rules,
    parse_rules,
    rules_impact,
    set_member_rules,
)
from accounts.tenancy.offboarding import close_user, reopen_user
from common.actors import SYSTEM
from common.db.advisory_locks import try_exclusive
from common.errors import Conflict, InvalidInput, PermissionDenied
from common.models import AuditEntry
from tests import factories
from tests.conftest import People
from tests.factories import actor_for
from tests.web.accounts.test_second_factor import browser_of

pytestmark = pytest.mark.django_db
SignIn = Callable[[User], None]
EVERYBODY = [("all", "")]


@pytest.fixture(autouse=True)
def _providers(settings: Any) -> None:
    settings.BERTH_OIDC_PROVIDERS = (SimpleNamespace(id="campus"),)


@pytest.fixture
def sign_in(django_capture_on_commit_callbacks: Any) -> SignIn:
    def act(user: User) -> None:
        with django_capture_on_commit_callbacks(execute=True):
            browser_of(user)

    return act


def rule(people: People, *rules: tuple[str, str]) -> None:
    set_member_rules(actor=actor_for(people.domain_admin), project_id=people.project.pk, rules=rules)


def members(project: Project, **wanted: Any) -> set[User]:
    return {row.user for row in project.memberships.filter(**wanted).select_related("user")}


def told(action: str) -> list[dict[str, Any]]:
    return list(AuditEntry.objects.filter(action=action).values_list("changes", flat=True))


def give_groups(user: User, *groups: str, provider: str = "campus") -> None:
    SocialAccount.objects.update_or_create(
        user=user, provider=provider, uid=user.email, defaults={"extra_data": {"groups": list(groups)}}
    )


def test_rule_for_all_adds_everyone_and_its_end_keeps_manual_members(people: People) -> None:
    by_hand = members(people.project)
    rule(people, *EVERYBODY)
    home = set(User.objects.filter(domain=people.domain))
    assert members(people.project) == home
    assert members(people.project, is_by_rule=False) == by_hand
    assert people.outsider.has_perm("accounts.use_project", people.project)
    assert people.stranger not in members(people.project)

    rule(people)
    assert members(people.project) == by_hand
    changed = told("accounts.set_member_rules")
    assert [each["rules"] for each in changed] == [[["all"], []], [[], ["all"]]]
    outsider = {"user": people.outsider.email, "by_rule": True}
    assert outsider in told("accounts.add_member")
    assert outsider in told("accounts.remove_member")


def test_following_twice_changes_nothing(people: People) -> None:
    rule(people, *EVERYBODY)
    before = AuditEntry.objects.count()
    follow_rules()
    rule(people, *EVERYBODY)
    assert AuditEntry.objects.count() == before


def test_addresses_count_when_they_are_proved(people: People, sign_in: SignIn) -> None:
    ada = factories.make_user(domain=people.domain)
    eve = factories.make_user(domain=people.domain)
    bob = factories.make_user(domain=people.domain)
    for user, address in ((ada, "ada@uni.example"), (eve, "eve@uni.example"), (bob, "bob@not-uni.example")):
        User.objects.filter(pk=user.pk).update(email=address)
    EmailAddress.objects.create(user=eve, email="eve@uni.example", verified=False)
    rule(people, ("mail", "uni.example"))
    assert members(people.project, is_by_rule=True) == {ada}

    EmailAddress.objects.filter(user=eve).update(verified=True)
    sign_in(eve)
    assert members(people.project, is_by_rule=True) == {ada, eve}


def test_groups_are_those_of_a_provider_that_is_set_up(people: People, settings: Any) -> None:
    give_groups(people.outsider, "staff", "cn=staff,ou=groups")
    other = factories.make_user(domain=people.domain)
    give_groups(other, "staff", provider="elsewhere")
    rule(people, ("group", "campus:staff"))
    assert members(people.project, is_by_rule=True) == {people.outsider}
    settings.BERTH_OIDC_PROVIDERS = ()
    apply_all_rules()
    assert members(people.project, is_by_rule=True) == set()


def test_what_a_provider_says_at_sign_in_decides(people: People, sign_in: SignIn) -> None:
    rule(people, ("group", "campus:staff"))
    onboarding = OnboardingRules(trusts=("*",), groups={"staff": (people.project.name,)})
    claim = ProviderIdentity(
        subject="1", email=people.outsider.email, is_verified=True, groups=frozenset({"staff"})
    )
    arguments = {"actor": SYSTEM, "provider_id": "campus", "onboarding": onboarding}
    admit_user(**arguments, identity=claim)  # type: ignore[arg-type]
    sign_in(people.outsider)
    assert members(people.project, is_by_rule=True) == {people.outsider}
    admit_user(**arguments, identity=replace(claim, groups=None))  # type: ignore[arg-type]
    sign_in(people.outsider)
    assert members(people.project, is_by_rule=True) == {people.outsider}
    admit_user(**arguments, identity=replace(claim, groups=frozenset()))  # type: ignore[arg-type]
    sign_in(people.outsider)
    assert members(people.project, is_by_rule=True) == set()
    assert people.member in members(people.project)  # whom the settings would take out: rules decide alone


def test_new_people_join_and_accounts_that_close_leave(
    people: People, django_capture_on_commit_callbacks: Any
) -> None:
    rule(people, *EVERYBODY)
    with django_capture_on_commit_callbacks(execute=True):
        new = service.create_user(
            actor=SYSTEM, email="new@uni.example", password=None, domain=people.domain, role=Role.USER
        )
    assert new in members(people.project, is_by_rule=True)
    close_user(actor=SYSTEM, user_id=new.pk, folders=OffBoarding.Folders.KEEP, new_owner=None)
    apply_all_rules()
    assert new not in members(people.project)
    with django_capture_on_commit_callbacks(execute=True):
        reopen_user(actor=SYSTEM, user_id=new.pk)
    assert new in members(people.project, is_by_rule=True)


def test_moving_to_another_domain_ends_memberships_by_rule(people: People) -> None:
    rule(people, *EVERYBODY)
    elsewhere = factories.make_domain()
    service.update_user(actor=actor_for(people.superadmin), user_id=people.outsider.pk, domain=elsewhere)
    assert people.outsider not in members(people.project)
    assert not people.outsider.has_perm("accounts.use_project", people.project)


def test_member_by_rule_is_removed_by_the_rule_only_and_may_be_added_by_hand(people: People) -> None:
    rule(people, *EVERYBODY)
    admin = actor_for(people.domain_admin)
    with pytest.raises(Conflict, match="by a rule"):
        service.remove_member(actor=admin, project=people.project, user=people.outsider)
    service.add_member(actor=admin, project=people.project, user=people.outsider, role=ProjectRole.ADMIN)
    rule(people)
    assert people.outsider in members(people.project, is_by_rule=False)


def test_manual_member_that_fits_a_rule_is_not_removed_by_hand(
    people: People,
) -> None:
    rule(people, *EVERYBODY)
    admin = actor_for(people.domain_admin)
    with pytest.raises(Conflict, match="by a rule"):
        service.remove_member(actor=admin, project=people.project, user=people.member)
    assert people.member in members(people.project, is_by_rule=False)
    root, elsewhere = actor_for(people.superadmin), factories.make_domain()
    service.update_user(actor=root, user_id=people.member.pk, domain=elsewhere)
    assert people.member not in members(people.project)

    rule(people)
    service.remove_member(actor=admin, project=people.project, user=people.project_admin)
    assert people.project_admin not in members(people.project)


def test_the_impact_says_whom_before(people: People) -> None:
    impact = rules_impact(people.project, parse_rules(EVERYBODY))
    assert impact.joining_count == len(impact.joining) == 3
    assert people.outsider.email in impact.joining
    rule(people, *EVERYBODY)
    impact = rules_impact(people.project, ())
    assert (impact.joining_count, impact.leaving_count) == (0, 3)
    assert rules_impact(people.project, parse_rules(EVERYBODY)).is_none


def test_rules_are_the_domain_admins(people: People) -> None:
    with pytest.raises(PermissionDenied):
        set_member_rules(actor=actor_for(people.project_admin), project_id=people.project.pk, rules=EVERYBODY)
    with pytest.raises(InvalidInput):
        rule(people, ("group", "elsewhere:staff"))
    assert not MembershipRule.objects.exists()


def test_more_than_a_few_follow_in_the_background(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership_sync, "SYNC_USERS", 1)
    rule(people, *EVERYBODY)
    assert len(members(people.project, is_by_rule=True)) == 1
    follow_rules()
    assert people.outsider in members(people.project, is_by_rule=True)


def test_a_sign_in_asks_three_queries_of_rules_and_survives_their_failure(
    people: People, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):
        membership_sync.apply_rules_to_user(people.outsider.pk)
    for rules in (EVERYBODY, [("mail", "no.example")], [("mail", "uni.example"), ("group", "campus:staff")]):
        more = replace(people, project=factories.make_project(people.domain))
        rule(more, *rules)
        factories.service.add_member(actor=SYSTEM, project=more.project, user=people.member)
    for user in (people.outsider, people.member):
        with django_assert_num_queries(3):
            membership_sync.apply_rules_to_user(user.pk)

    monkeypatch.setattr(membership_sync, "_matching_project_ids", lambda *_: 1 / 0)
    sign_in(people.outsider)


def test_a_run_passes_over_projects_that_fail_and_ends_in_time(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = people.project, factories.make_project(people.domain)
    for project in (first, second):
        MembershipRule.objects.create(project=project, kind="all")
    with monkeypatch.context() as patch:
        patch.setattr(membership_sync, "WORK_S", -1)
        follow_rules()
    assert not Membership.objects.filter(is_by_rule=True).exists()

    settle = membership_sync._apply_to_user

    def settle_in_second(project_id: int, user_id: int) -> None:
        assert project_id == second.pk
        settle(project_id, user_id)

    monkeypatch.setattr(membership_sync, "_apply_to_user", settle_in_second)
    follow_rules()
    assert members(first, is_by_rule=True) == set()
    assert people.outsider in members(second)


def test_failed_user_does_not_block_others_and_admins_read_why(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = people.outsider, factories.make_user(domain=people.domain)
    MembershipRule.objects.create(project=people.project, kind="all")
    grant, errors = (
        membership_sync.grant_project_permissions,
        [Conflict("Too many of them."), ValueError("secret")],
    )
    settled: list[User] = []

    def grant_to_others(user: User) -> None:
        settled.append(user)
        if user == bad:
            raise errors.pop(0)
        grant(user)

    address = f"/api/v1/projects/{people.project.pk}/rules/"
    admin = factories.api_client(people.domain_admin)
    page = f"/projects/{people.project.pk}/"
    with monkeypatch.context() as patch:
        patch.setattr(membership_sync, "grant_project_permissions", grant_to_others)
        follow_rules()
        assert good in members(people.project, is_by_rule=True)
        assert bad not in members(people.project)
        [failure] = admin.get(address).json()["failures"]
        assert (failure["email"], failure["reason"]) == (bad.email, "Too many of them.")
        shown = browser_of(people.domain_admin).get(page).content.decode()
        assert "Too many of them." in shown
        assert factories.api_client(people.project_admin).get(address).json()["failures"] == []
        assert "Too many of them." not in browser_of(people.project_admin).get(page).content.decode()

        Membership.objects.filter(user=good).delete()
        settled.clear()
        follow_rules()
        assert settled == [good, bad]  # whoever failed comes last
        [failure] = admin.get(address).json()["failures"]
        assert failure["reason"] == "ValueError; the log has it as rules.person_failed."
        assert failure["tried_at"] > failure["since"]
    follow_rules()
    assert bad in members(people.project, is_by_rule=True)
    assert not RuleFailure.objects.exists()


def test_failures_are_shown_without_rules_too_and_not_without_end(people: People) -> None:
    for _ in range(101):
        RuleFailure.objects.create(project=people.project, user=factories.make_user(), reason="Too many.")
    page = browser_of(people.domain_admin).get(f"/projects/{people.project.pk}/").content.decode()
    assert "Too many." in page
    told = factories.api_client(people.domain_admin).get(f"/api/v1/projects/{people.project.pk}/rules/")
    assert len(told.json()["failures"]) == 100


def test_a_failure_ends_with_the_rules(people: People) -> None:
    RuleFailure.objects.create(project=people.project, user=people.outsider, reason="x")
    follow_rules()
    assert not RuleFailure.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_only_one_run_follows_rules_at_a_time(people: People) -> None:
    MembershipRule.objects.create(project=people.project, kind="all")
    with ThreadPoolExecutor(1) as other, try_exclusive("follow-rules") as is_mine:
        assert is_mine
        other.submit(in_own_connection, follow_rules).result(timeout=60)
        assert not Membership.objects.filter(is_by_rule=True).exists()
    follow_rules()
    assert people.outsider in members(people.project, is_by_rule=True)


def in_own_connection(function: Callable[[], None]) -> None:
    try:
        function()
    finally:
        connection.close()


def test_archived_projects_and_closed_users_are_skipped(people: People) -> None:
    rule(people, *EVERYBODY)
    Project.objects.filter(pk=people.project.pk).update(is_active=False)
    MembershipRule.objects.all().delete()
    apply_all_rules()
    membership_sync._apply_to_user(people.project.pk, people.outsider.pk)
    membership_sync._apply_to_user(people.project.pk, 10**9)
    assert people.outsider in members(people.project, is_by_rule=True)


def test_a_decision_that_is_late_changes_nothing(people: People) -> None:
    membership_sync._apply_to_user(people.project.pk, people.member.pk)
    assert Membership.objects.get(project=people.project, user=people.member).is_by_rule is False


def test_the_page_shows_whom_it_concerns_and_saves_when_it_is_said_again(people: People) -> None:
    browser = browser_of(people.domain_admin)
    address = f"/projects/{people.project.pk}/rules/"
    assert "campus" in browser.get(address).content.decode()
    typed = {"everybody": "on", "mail": "uni.example\n", "group": "campus:staff"}
    page = browser.post(address, typed)
    text = page.content.decode()
    assert "3 people join:" in text
    assert people.outsider.email in text
    assert not MembershipRule.objects.exists()
    assert browser.post(address, {**typed, "sure": page.context["sure"]}).status_code == 302
    project = browser.get(f"/projects/{people.project.pk}/").content.decode()
    for sentence in (
        "Everybody of the domain",
        "end with @uni.example",
        "The group campus:staff",
        "by a rule",
    ):
        assert sentence in project
    assert "checked" in browser.get(address).content.decode()
    wrong = browser.post(address, {"mail": "not one", "group": ""})
    assert (wrong.status_code, "no mail domain" in wrong.content.decode()) == (422, True)
