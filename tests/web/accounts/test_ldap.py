"""Sign-in by LDAP, against a directory on loopback."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from accounts.core.identity_providers import LdapDirectory, OnboardingRules, UnknownUser
from accounts.core.membership_rules import group_name
from accounts.models import User
from accounts.sign_in import ldap
from accounts.tenancy import offboarding
from common.actors import SYSTEM
from common.models import AuditEntry
from tests.conftest import People
from tests.doubles import directory_server as there
from tests.doubles.directory_server import DirectoryServer
from tests.factories import PASSWORD, give_app, make_project, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]


@pytest.fixture(scope="module")
def server() -> Iterator[DirectoryServer]:
    running = DirectoryServer()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def its(server: DirectoryServer, people: People, settings: Any) -> LdapDirectory:
    settings.BERTH_DIRECTORY = LdapDirectory(
        url=server.url, starts_tls=False, bind_dn=there.BIND_DN, secret=there.SECRET, base=there.BASE,
        filter="(mail={login})", email_attribute="mail", name_attribute="cn", group_attribute="memberOf",
        onboarding=OnboardingRules(
            trusts=("berth.example",), unknown=UnknownUser.CREATE, domain=people.domain.name
        ),
    )  # fmt: skip
    found: LdapDirectory = settings.BERTH_DIRECTORY
    return found


def sign_in(email: str, password: str = there.PASSWORD) -> Any:
    return Client().post("/account/login/", {"login": email, "password": password})


def test_the_directorys_password_signs_in_and_makes_the_account(people: People) -> None:
    assert sign_in("Ada@berth.example").status_code == 302
    user = User.objects.get(email="ada@berth.example")
    assert (user.name, user.domain) == ("Ada (Lovelace)", people.domain)
    assert not user.has_usable_password()
    assert AuditEntry.objects.get(action="accounts.sign_in", actor_id=user.pk).changes == {"provider": "ldap"}
    assert sign_in("ada@berth.example").status_code == 302
    assert User.objects.filter(email="ada@berth.example").count() == 1


@pytest.mark.parametrize(
    ("email", "password"),
    [
        ("ada@berth.example", "wrong"),
        ("nobody@berth.example", there.PASSWORD),
        ("twin@berth.example", there.PASSWORD),
    ],
)
def test_nobody_else_is_let_in(email: str, password: str) -> None:
    assert sign_in(email, password).status_code == 200
    assert AuditEntry.objects.filter(action="accounts.sign_in", outcome="refused").exists()


@pytest.mark.parametrize("password", ["", "x" * 2000])
def test_no_password_is_never_sent(
    its: LdapDirectory, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setattr(ldap, "_find_entry", lambda *arguments: pytest.fail("asked"))
    assert ldap.authenticate_by_ldap(its, "ada@berth.example", password) is None


@pytest.mark.parametrize("login", ["*", "ada*", "*)(uid=*", "ada@berth.example)(|(uid=*", "\\2a", "a\0b"])
def test_signs_of_filters_are_only_letters(its: LdapDirectory, login: str) -> None:
    assert ldap.authenticate_by_ldap(its, login, there.PASSWORD) is None


def test_the_reason_is_said_to_who_proved_their_password(
    people: People, its: LdapDirectory, settings: Any
) -> None:
    settings.BERTH_DIRECTORY = replace(its, onboarding=replace(its.onboarding, unknown=UnknownUser.REFUSE))
    answer = sign_in("ada@berth.example")
    assert answer.status_code == 403
    assert "Nobody here has the address" in answer.content.decode()
    assert not User.objects.filter(email="ada@berth.example").exists()


def test_a_name_that_is_given_to_somebody_else_opens_no_old_account(people: People) -> None:
    assert sign_in("ada@berth.example").status_code == 302
    User.objects.filter(email="ada@berth.example").update(email="ada.before@berth.example")
    answer = sign_in("ada@berth.example")
    assert answer.status_code == 403
    assert "has another address" in answer.content.decode()


def test_an_account_in_use_is_connected_by_its_password_here(people: People) -> None:
    user = make_user(domain=people.domain, email="ada@berth.example")
    User.objects.filter(pk=user.pk).update(last_login=user.created_at)
    browser = Client()
    asked = {"login": user.email, "password": there.PASSWORD}
    assert "as you did until now" in browser.post("/account/login/", asked).content.decode()
    assert browser.post("/account/login/", asked | {"password": PASSWORD}).status_code == 302
    assert sign_in(user.email).status_code == 302


def test_a_closed_account_stays_closed(people: People) -> None:
    user = make_user(domain=people.domain, email="ada@berth.example")
    offboarding.close_user(actor=SYSTEM, user_id=user.pk)
    assert sign_in("ada@berth.example").status_code == 403


def test_projects_follow_groups(people: People, its: LdapDirectory, settings: Any) -> None:
    staff = make_project(people.domain)
    groups = {"staff": (staff.name,), "cold": (people.project.name,)}
    settings.BERTH_DIRECTORY = replace(its, onboarding=replace(its.onboarding, groups=groups))
    sign_in("ada@berth.example")
    assert list(User.objects.get(email="ada@berth.example").projects.all()) == [staff]


def test_a_group_by_its_place_is_no_other_group_of_that_name(
    people: People, its: LdapDirectory, settings: Any
) -> None:
    right, wrong = (group_name(f"CN=Staff, OU={unit}, {there.BASE}") for unit in ("Groups", "Others"))
    staff = make_project(people.domain)
    groups = {right: (staff.name,), wrong: (people.project.name,)}
    settings.BERTH_DIRECTORY = replace(its, onboarding=replace(its.onboarding, groups=groups))
    sign_in("ada@berth.example")
    assert list(User.objects.get(email="ada@berth.example").projects.all()) == [staff]


@pytest.mark.parametrize(
    "changes",
    [{"secret": "wrong"}, {"starts_tls": True}, {"url": "ldaps://{address}"}, {"url": "ldap://127.0.0.1:1"}],
)
def test_a_directory_that_cannot_be_asked_lets_local_people_in(
    people: People, its: LdapDirectory, settings: Any, changes: dict[str, Any]
) -> None:
    address = its.url.removeprefix("ldap://")
    changes = {
        name: value.format(address=address) if name == "url" else value for name, value in changes.items()
    }
    settings.BERTH_DIRECTORY = replace(its, **changes)
    assert sign_in(people.member.email, PASSWORD).status_code == 302
    assert sign_in("ada@berth.example").status_code == 200


def test_a_directory_that_says_nothing_is_given_up(
    its: LdapDirectory, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ldap, "ANSWER_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.BERTH_DIRECTORY = replace(its, url=f"ldap://127.0.0.1:{silent.getsockname()[1]}")
        assert sign_in("ada@berth.example").status_code == 200


def test_local_password_does_not_wait_for_the_directory(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "accounts.sign_in.auth_backends.authenticate_by_ldap", lambda *arguments: pytest.fail("asked")
    )
    assert sign_in(people.member.email, PASSWORD).status_code == 302


def test_a_second_factor_and_networks_hold_for_the_directorys_password(people: People) -> None:
    sign_in("ada@berth.example")
    user = User.objects.get(email="ada@berth.example")
    give_app(user)
    assert sign_in("ada@berth.example")["Location"] == "/account/2fa/authenticate/"
    User.objects.filter(pk=user.pk).update(allowed_networks=["192.0.2.0/24"])
    assert sign_in("ada@berth.example").status_code == 403


@pytest.mark.parametrize(
    ("dn", "mail"),
    [
        (f"cn={'x' * 300},dc=example", "ada@berth.example"),
        ("cn=a\0b,dc=example", "ada@berth.example"),
        ("cn=ada,dc=example", "ada\0@berth.example"),
    ],
)
def test_an_entry_that_cannot_be_kept_is_nobody(
    its: LdapDirectory, monkeypatch: pytest.MonkeyPatch, dn: str, mail: str
) -> None:
    entry = {"dn": dn, "attributes": {"mail": [mail], "cn": ["Ada"]}}
    monkeypatch.setattr(ldap, "_find_entry", lambda *arguments: entry)
    monkeypatch.setattr(ldap, "_is_password_valid", lambda *arguments: True)
    assert ldap.authenticate_by_ldap(its, "ada@berth.example", there.PASSWORD) is None
