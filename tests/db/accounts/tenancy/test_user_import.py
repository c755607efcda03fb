"""Import of users from a file: dry run, result, and repetition without effect."""

from typing import Any

import pytest
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext
from guardian.models import UserObjectPermission

from accounts.core.roles import Role
from accounts.models import Membership, PeopleImport, ResourcePolicy, SignInLink, User
from accounts.policies.service import assign_policy, create_policy
from accounts.tenancy import user_import
from accounts.tenancy.bulk_users import NewUser
from accounts.tenancy.service import add_member, create_user
from accounts.tenancy.user_import import (
    MAX_UNSTARTED,
    Outcome,
    check_import,
    continue_imports,
    create_links,
    start_import,
)
from common.actors import Actor
from common.errors import InvalidInput, NotFound, PermissionDenied
from common.models import AuditEntry
from tests.conftest import People
from tests.factories import actor_for, make_domain, make_user

pytestmark = pytest.mark.django_db(transaction=True)


def check(actor: Actor, text: str) -> PeopleImport:
    return check_import(actor=actor, name="people.csv", content=text.encode())


def outcomes(found: PeopleImport) -> dict[str, str]:
    return {line.values["email"]: line.outcome for line in found.lines.all()}


def test_a_check_says_what_each_row_would_do_and_does_nothing(people: People) -> None:
    name = people.project.name
    text = (
        f"email,name,projects\nnew@berth.example,Ada,{name}\n{people.member.email.upper()},,{name}\n"
        f"{people.outsider.email},,{name}\n{people.superadmin.email},Root,\n{people.stranger.email},x,\n"
        "no address,,\nlost@berth.example,,no-such\n"
    )
    found = check(actor_for(people.domain_admin), text)
    assert outcomes(found) == {
        "new@berth.example": Outcome.NEW,
        people.member.email: Outcome.UNCHANGED,
        people.outsider.email: Outcome.CHANGED,
        people.superadmin.email: Outcome.REFUSED,
        people.stranger.email: Outcome.REFUSED,
        "no address": Outcome.REFUSED,
        "lost@berth.example": Outcome.REFUSED,
    }
    assert not User.objects.filter(email="new@berth.example").exists()
    assert not Membership.objects.filter(user=people.outsider).exists()


def test_the_good_rows_are_taken_in_and_the_file_again_changes_nothing(people: People) -> None:
    actor = actor_for(people.domain_admin)
    text = f"email;name;projects\nnew@berth.example;Ada;{people.project.name}\nbad;;\n{people.member.email};Mia;\n"
    found = start_import(actor=actor, import_id=check(actor, text).pk)
    assert found.finished_at is not None
    new = User.objects.get(email="new@berth.example")
    assert (new.name, new.role, new.domain) == ("Ada", Role.USER, people.domain)
    assert not new.has_usable_password()
    assert Membership.objects.filter(user=new, project=people.project).exists()
    assert User.objects.get(pk=people.member.pk).name == "Mia"

    lines = AuditEntry.objects.filter(action__in=("accounts.create_user", "accounts.update_user")).count()
    again = start_import(actor=actor, import_id=check(actor, text).pk)
    assert set(outcomes(again).values()) == {Outcome.UNCHANGED, Outcome.REFUSED}
    assert (
        AuditEntry.objects.filter(action__in=("accounts.create_user", "accounts.update_user")).count()
        == lines
    )


@pytest.mark.parametrize("survives", [0, 1], ids=["in the first batch", "in the second batch"])
def test_a_kill_in_the_middle_and_another_run_end_the_same(
    people: People, monkeypatch: pytest.MonkeyPatch, survives: int
) -> None:
    actor = actor_for(people.domain_admin)
    monkeypatch.setattr(user_import, "SYNC_ROWS", 0)  # in the background
    monkeypatch.setattr(user_import, "BATCH_ROWS", 2)
    emails = [f"person-{number}@kill.example" for number in range(3)]
    found = start_import(actor=actor, import_id=check(actor, "email\n" + "\n".join(emails)).pk)
    assert found.finished_at is None

    note, noted = user_import._set_result, []

    def killed(line: object, verdict: user_import.RowResult) -> None:
        if len(noted) == 1 + survives:
            raise KeyboardInterrupt  # after people were made, before their rows are kept
        noted.append(line)
        note(line, verdict)  # type: ignore[arg-type]

    monkeypatch.setattr(user_import, "_set_result", killed)
    with pytest.raises(KeyboardInterrupt):
        user_import.continue_import(found.pk)
    assert User.objects.filter(email__in=emails).count() == 2 * survives

    monkeypatch.setattr(user_import, "_set_result", note)
    continue_imports()
    continue_imports()
    assert User.objects.filter(email__in=emails).count() == 3
    assert set(outcomes(found).values()) == {Outcome.NEW}
    found.refresh_from_db()
    assert found.finished_at is not None


def test_many_new_people_are_what_one_would_be_and_cost_few_queries(people: People) -> None:
    """A member made alone has the same account, permissions and lines in the audit log."""
    actor = actor_for(people.domain_admin)
    alone = create_user(
        actor=actor, email="alone@berth.example", password=None, domain=people.domain, role=Role.USER
    )
    add_member(actor=actor, project=people.project, user=alone)
    policy = create_policy(actor=actor, name="small", domain=people.domain)
    assign_policy(actor=actor, target=alone, policy=policy)
    rows = "".join(f"{number}@many.example,{people.project.name},small\n" for number in range(20))
    found = check(actor, f"email,projects,policy\n{rows}")
    with CaptureQueriesContext(connection) as queries:
        start_import(actor=actor, import_id=found.pk)
    assert len(queries) < 45

    assert set(outcomes(found).values()) == {Outcome.NEW}
    for number in range(20):
        user = User.objects.get(email=f"{number}@many.example")
        assert traces_of(user) == traces_of(alone)


def test_nobody_is_made_with_a_policy_that_went_meanwhile(people: People) -> None:
    actor = actor_for(people.domain_admin)
    policy = create_policy(actor=actor, name="small", domain=people.domain)
    ResourcePolicy.objects.filter(pk=policy.pk).delete()
    wanted = [
        NewUser(email=f"{name}@new.example", name="", role=Role.USER, domain=people.domain, policy=each)
        for name, each in (("a", policy), ("b", None))
    ]
    with pytest.raises(NotFound, match="“small” was deleted meanwhile"):
        user_import.create_users(actor=actor, new_users=wanted)
    assert not User.objects.filter(email__endswith="@new.example").exists()


def test_a_policy_of_all_is_given_by_superadmins_to_new_people_too(people: People) -> None:
    policy = create_policy(actor=actor_for(people.superadmin), name="large")
    line = NewUser(email="a@new.example", name="", role=Role.USER, domain=people.domain, policy=policy)
    with pytest.raises(PermissionDenied):
        user_import.create_users(actor=actor_for(people.domain_admin), new_users=[line])
    [made] = user_import.create_users(actor=actor_for(people.superadmin), new_users=[line])
    assert made.policy == policy


def traces_of(user: User) -> object:
    permissions = UserObjectPermission.objects.filter(user=user)
    told = AuditEntry.objects.filter(
        Q(target_type="accounts.user", target_id=user.pk) | Q(changes__user=user.email)
    )
    return (
        (user.role, user.domain_id, user.policy_id, user.is_active, user.language),
        list(user.memberships.values_list("project_id", "role")),
        set(permissions.values_list("permission_id", "content_type_id", "object_pk")),
        sorted(told.values_list("action", "target_type", "outcome", "domain_id")),
    )


def test_rows_that_fail_together_are_taken_in_one_by_one(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = actor_for(people.domain_admin)
    found = check(actor, "email\na@new.example\nb@new.example\n")
    create_users = user_import.create_users

    def overtaken(**wanted: Any) -> list[User]:
        make_user(email="a@new.example")
        return create_users(**wanted)

    monkeypatch.setattr(user_import, "create_users", overtaken)
    start_import(actor=actor, import_id=found.pk)
    assert outcomes(found) == {"a@new.example": Outcome.NEW, "b@new.example": Outcome.NEW}


def test_policies_of_one_name_are_not_one_policy(people: People) -> None:
    """One of the domain has the name of one of the whole installation."""
    actor = actor_for(people.superadmin)
    general = ResourcePolicy.objects.create(name="small")
    own = ResourcePolicy.objects.create(name="small", domain=people.domain)
    User.objects.filter(pk=people.member.pk).update(policy=general)
    text = f"email,policy\n{people.member.email},small\n"
    found = start_import(actor=actor, import_id=check(actor, text).pk)
    assert [(line.outcome, line.changes) for line in found.lines.all()] == [(Outcome.CHANGED, ["policy"])]
    assert User.objects.get(pk=people.member.pk).policy == own
    assert set(outcomes(check(actor, text)).values()) == {Outcome.UNCHANGED}


@pytest.mark.parametrize("role", [Role.MONITOR, Role.SUPERADMIN])
def test_no_row_raises_anybody_above_the_importer(people: People, role: Role) -> None:
    actor = actor_for(people.domain_admin)
    text = f"email,role\nnew@berth.example,{role}\n{people.member.email},{role}\n"
    found = start_import(actor=actor, import_id=check(actor, text).pk)
    assert set(outcomes(found).values()) == {Outcome.REFUSED}
    assert all(line.faults == {"role": "You may not give this role."} for line in found.lines.all())


def test_rights_that_went_meanwhile_are_gone_for_the_rows_too(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = actor_for(people.domain_admin)
    monkeypatch.setattr(user_import, "SYNC_ROWS", 0)
    found = start_import(actor=actor, import_id=check(actor, "email\nnew@berth.example\n").pk)
    User.objects.filter(pk=people.domain_admin.pk).update(role=Role.USER)
    continue_imports()
    assert set(outcomes(found).values()) == {Outcome.REFUSED}
    assert not User.objects.filter(email="new@berth.example").exists()


def test_what_only_superadmins_give_is_refused_to_others_and_taken_from_them(people: People) -> None:
    policy = ResourcePolicy.objects.create(name="small")
    elsewhere = make_domain()
    text = f"email,policy,domain\nnew@berth.example,small,{elsewhere.name}\n"
    line = check(actor_for(people.domain_admin), text).lines.get()
    assert set(line.faults) == {"domain"}
    text_at_home = "email,policy\nnew@berth.example,small\n"
    assert set(check(actor_for(people.domain_admin), text_at_home).lines.get().faults) == {"policy"}
    actor = actor_for(people.superadmin)
    start_import(actor=actor, import_id=check(actor, text).pk)
    new = User.objects.get(email="new@berth.example")
    assert (new.domain, new.policy) == (elsewhere, policy)
    assert check(
        actor, text + f"{people.member.email},no-such,{elsewhere.name}\n"
    ).lines.last().faults.keys() == {  # type: ignore[union-attr]
        "policy",
        "domain",
    }


def test_what_a_row_may_not_change_is_said_at_its_field(people: People) -> None:
    admin = people.domain_admin
    User.objects.filter(pk=people.outsider.pk).update(is_active=False)
    text = f"email,name,role\n{people.outsider.email},x,\n{admin.email},,user\n{people.member.email},,king\n"
    faults = [set(line.faults) for line in check(actor_for(admin), text).lines.all()]
    assert faults == [{"email"}, {"role"}, {"role"}]


def test_import_makes_links_for_added_users_who_never_signed_in(people: People) -> None:
    actor = actor_for(people.domain_admin)
    text = f"email\na@new.example\nb@new.example\n{people.member.email}\n"
    found = start_import(actor=actor, import_id=check(actor, text).pk)
    make_user(domain=people.domain)
    links = create_links(actor=actor, import_id=found.pk)
    assert [email for email, _code in links] == ["a@new.example", "b@new.example"]
    assert SignInLink.objects.count() == 2


def test_imports_need_permission_and_belong_to_their_maker(people: People) -> None:
    with pytest.raises(PermissionDenied):
        check(actor_for(people.project_admin), "email\na@b.example\n")
    with pytest.raises(InvalidInput, match="UTF-16"):
        check_import(actor=actor_for(people.superadmin), name="x", content=b"\xff\xfe")
    found = check(actor_for(people.superadmin), "email\na@b.example\n")
    with pytest.raises(NotFound):
        start_import(actor=actor_for(people.domain_admin), import_id=found.pk)


def test_old_files_are_forgotten(people: People) -> None:
    found = check(actor_for(people.superadmin), "email\na@b.example\n")
    PeopleImport.objects.update(asked_at=found.asked_at - 2 * user_import.RETENTION)
    user_import.purge_imports()
    assert not PeopleImport.objects.exists()


def test_of_checks_that_were_not_started_the_newest_are_kept(people: People) -> None:
    actor = actor_for(people.domain_admin)
    started = check(actor, "email\nfirst@new.example\n")
    start_import(actor=actor, import_id=started.pk)
    checks = [check(actor, "email\nother@new.example\n").pk for _ in range(MAX_UNSTARTED + 2)]

    assert set(PeopleImport.objects.values_list("pk", flat=True)) == {started.pk, *checks[2:]}
    with pytest.raises(NotFound):
        start_import(actor=actor, import_id=checks[0])


def test_a_check_takes_as_many_queries_for_any_number_of_rows(
    people: People, django_assert_max_num_queries: object
) -> None:
    actor = actor_for(people.domain_admin)
    lines = user_import.parse_user_csv(
        ("email\n" + "\n".join(f"p{n}@x.example" for n in range(500))).encode()
    )
    with django_assert_max_num_queries(12):  # type: ignore[operator]
        user_import.check_lines(actor, lines)
