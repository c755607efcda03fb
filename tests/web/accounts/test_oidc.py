"""Sign-in by OpenID Connect, against a provider on loopback."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from accounts.core.identity_providers import (
    OidcProvider,
    OnboardingRules,
    UnknownUser,
    Variables,
    read_onboarding_rules,
)
from accounts.core.throttle import AttemptLimit, Purpose, Rate
from accounts.models import User
from accounts.tenancy import archiving, offboarding, service
from common import clock
from common.actors import SYSTEM
from common.models import AuditEntry
from tests.conftest import People
from tests.doubles.identity_provider import CLIENT_ID, SECRET, IdentityProvider
from tests.factories import PASSWORD, api_client, give_app, make_project
from tests.factories_entrance import make_invitation

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]

BEGIN = "/sign-in/by/harbour/"


@pytest.fixture(scope="module")
def idp() -> Iterator[IdentityProvider]:
    provider = IdentityProvider()
    yield provider
    provider.close()


@pytest.fixture
def onboarding(people: People) -> OnboardingRules:
    return OnboardingRules(
        trusts=("berth.example",),
        unknown=UnknownUser.CREATE,
        domain=people.domain.name,
        projects=(people.project.name,),
    )


@pytest.fixture(autouse=True)
def provider(
    idp: IdentityProvider, onboarding: OnboardingRules, people: People, settings: Any
) -> OidcProvider:
    idp.fault, idp.userinfo = "", {}
    idp.person = {"sub": "42", "email": people.member.email, "email_verified": True, "name": "Ada"}
    its = OidcProvider("harbour", "Harbour ID", idp.issuer, CLIENT_ID, SECRET, "groups", onboarding)
    settings.BERTH_OIDC_PROVIDERS = (its,)
    return its


def admit(settings: Any, **changes: Any) -> None:
    its = settings.BERTH_OIDC_PROVIDERS[0]
    settings.BERTH_OIDC_PROVIDERS = (replace(its, onboarding=replace(its.onboarding, **changes)),)


def sign_in(idp: IdentityProvider, browser: Client | None = None, **query: str) -> Any:
    """The answer to the browser that comes back."""
    browser = browser or Client()
    return browser.get(come_back(idp, browser, **query))


def come_back(idp: IdentityProvider, browser: Client, **query: str) -> str:
    away = browser.post(BEGIN, query)
    assert away.status_code == 200, away.content
    url = away.context["url"]
    assert url.startswith(f"{idp.issuer}/authorize?")
    assert f'http-equiv="refresh" content="0;url={escape(url)}"' in words(away)
    back = urlsplit(idp.authorize(url))
    return f"{back.path}?{back.query}"


def words(answer: Any) -> str:
    return str(answer.content.decode())


def last_refusal() -> str:
    return AuditEntry.objects.filter(action="accounts.sign_in", outcome="refused").latest("pk").reason


def test_the_sign_in_page_has_a_button_for_each(people: People) -> None:
    page = words(Client().get("/account/login/", {"next": "/data/"}))
    assert "Sign in by Harbour ID" in page
    form = page.partition(f'action="{BEGIN}"')[2].partition("</form>")[0]
    assert "csrfmiddlewaretoken" in form
    assert 'name="next" value="/data/"' in form


def test_no_other_site_begins_a_sign_in(idp: IdentityProvider) -> None:
    assert Client().get(BEGIN).status_code == 405
    assert Client(enforce_csrf_checks=True).post(BEGIN).status_code == 403
    browser = Client(enforce_csrf_checks=True)
    browser.get("/account/login/")
    sent = {"csrfmiddlewaretoken": browser.cookies["berth_csrf"].value}
    assert browser.post(BEGIN, sent).status_code == 200


def test_a_verified_address_of_a_trusted_domain_is_the_account_of_that_address(
    people: People, idp: IdentityProvider
) -> None:
    browser = Client()
    assert sign_in(idp, browser, next="/data/")["Location"] == "/data/"
    assert browser.get("/").context["user"] == people.member
    entry = AuditEntry.objects.get(action="accounts.sign_in")
    assert (entry.actor_id, entry.changes) == (people.member.pk, {"provider": "harbour"})

    idp.person["email"] = "renamed@berth.example"
    again = Client()
    assert sign_in(idp, again)["Location"] == "/"
    assert again.get("/").context["user"] == people.member
    assert SocialAccount.objects.count() == 1


def test_who_is_unknown_is_made_in_the_domain_and_its_projects(people: People, idp: IdentityProvider) -> None:
    idp.person = {"sub": "43", "email": "Grace@Berth.example", "email_verified": True, "name": "Grace"}
    assert sign_in(idp)["Location"] == "/"
    user = User.objects.get(email="grace@berth.example")
    assert (user.name, user.domain, user.role) == ("Grace", people.domain, "user")
    assert list(user.projects.all()) == [people.project]
    assert not user.has_usable_password()
    assert EmailAddress.objects.get(user=user).verified


def test_who_is_unknown_is_refused_where_the_settings_say_so(idp: IdentityProvider, settings: Any) -> None:
    admit(settings, unknown=UnknownUser.REFUSE)
    idp.person |= {"sub": "44", "email": "grace@berth.example"}
    answer = sign_in(idp)
    assert answer.status_code == 403
    assert "Nobody here has the address" in words(answer)
    assert "request-id" in words(answer)
    assert last_refusal() == "unknown_address"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"email_verified": False}, "address_not_verified"),
        ({"email_verified": "true"}, "address_not_verified"),
        ({"email": ""}, "address_not_verified"),
        ({"email": "ada@else.example"}, "address_not_trusted"),
        ({"email": "ada@sub.berth.example"}, "address_not_trusted"),
    ],
)
def test_an_address_that_is_not_proved_lets_nobody_in(
    idp: IdentityProvider, changes: dict[str, Any], reason: str
) -> None:
    idp.person |= changes
    assert sign_in(idp).status_code == 403
    assert last_refusal() == reason
    assert not SocialAccount.objects.exists()


def test_an_address_is_asked_for_where_the_token_names_none(people: People, idp: IdentityProvider) -> None:
    idp.person = {"sub": "45"}
    idp.userinfo = {"email": people.member.email, "email_verified": True}
    assert sign_in(idp).status_code == 302
    idp.userinfo = {"email": people.superadmin.email, "email_verified": True, "sub": "another"}
    assert sign_in(idp).status_code == 403


def test_an_account_whose_address_nobody_proved_is_given_to_nobody(
    people: People, idp: IdentityProvider
) -> None:
    _, code = make_invitation(people.domain, people.domain_admin)
    Client().post(f"/invitation/{code}/", {"email": "grace@berth.example", "password": "a quiet harbour"})
    idp.person |= {"sub": "46", "email": "grace@berth.example"}
    assert sign_in(idp).status_code == 403
    assert last_refusal() == "address_not_verified"


def test_a_password_that_somebody_gave_the_account_opens_nothing_after_its_person_came(
    people: People, idp: IdentityProvider
) -> None:
    token = api_client(people.member)
    assert sign_in(idp).status_code == 302
    people.member.refresh_from_db()
    assert not people.member.has_usable_password()
    assert token.get("/api/v1/me/").status_code == 401
    asked = {"login": people.member.email, "password": PASSWORD}
    assert Client().post("/account/login/", asked).status_code == 200


def test_an_account_in_use_is_connected_by_who_shows_that_it_is_theirs(
    people: People, idp: IdentityProvider
) -> None:
    asked = {"login": people.member.email, "password": PASSWORD}
    owner, stranger = Client(), Client()
    owner.post("/account/login/", asked)
    owner.post("/account/logout/")
    for browser in (owner, stranger):
        assert sign_in(idp, browser, next="/data/")["Location"] == "/account/login/?next=%2Fdata%2F"
        assert not browser.session.get("_auth_user_id")
    assert last_refusal() == "proof_needed"
    assert "as you did until now" in words(owner.get("/account/login/"))
    stranger.post("/account/login/", {"login": people.outsider.email, "password": PASSWORD})
    assert not SocialAccount.objects.exists()

    owner.post("/account/login/", asked)
    assert SocialAccount.objects.get().user == people.member
    assert sign_in(idp, Client(), next="/data/")["Location"] == "/data/"
    assert Client().post("/account/login/", asked).status_code == 302
    assert AuditEntry.objects.get(action="accounts.link_provider").actor_id == people.member.pk


def test_a_proof_waits_for_ten_minutes_alone(people: People, idp: IdentityProvider) -> None:
    User.objects.filter(pk=people.member.pk).update(last_login=clock.now())
    browser = Client()
    sign_in(idp, browser)
    with clock.frozen_at(clock.now() + timedelta(minutes=11)):
        browser.post("/account/login/", {"login": people.member.email, "password": PASSWORD})
    assert not SocialAccount.objects.exists()


def test_the_account_of_an_administrator_is_never_taken_over(people: People, idp: IdentityProvider) -> None:
    idp.person["email"] = people.superadmin.email
    assert "/account/login/" in sign_in(idp)["Location"]
    people.superadmin.refresh_from_db()
    assert people.superadmin.has_usable_password()


@pytest.mark.parametrize("name", ["superadmin", "member"])
def test_an_account_without_a_password_is_connected_by_proof_too(
    people: People, idp: IdentityProvider, name: str
) -> None:
    person = getattr(people, name)
    person.set_unusable_password()
    person.last_login = clock.now() if name == "member" else None
    person.save()
    idp.person["email"] = person.email
    owner, stranger = Client(), Client()
    for browser in (owner, stranger):
        assert "/account/login/" in sign_in(idp, browser)["Location"]
        assert not browser.session.get("_auth_user_id")
    assert last_refusal() == "proof_needed"

    code = service.create_sign_in_link(actor=SYSTEM, user=person)
    owner.post(reverse("sign-in-once", args=[code]))
    assert SocialAccount.objects.get().user == person
    assert sign_in(idp)["Location"] == "/"


@pytest.mark.parametrize("is_known", [False, True])
def test_a_closed_account_and_a_closed_domain_stay_closed(
    people: People, idp: IdentityProvider, is_known: bool
) -> None:
    if is_known:
        assert sign_in(idp).status_code == 302
    offboarding.close_user(actor=SYSTEM, user_id=people.member.pk)
    assert sign_in(idp).status_code == 403
    assert last_refusal() == "account_closed"
    idp.person |= {"sub": "47", "email": people.stranger.email}
    archiving.update_domain(actor=SYSTEM, domain_id=people.stranger.domain_id, is_active=False)
    assert sign_in(idp).status_code == 403


@pytest.mark.parametrize(
    "fault",
    [
        "wrong_nonce", "no_nonce", "wrong_audience", "foreign_party", "foreign_issuer", "expired_token",
        "unsigned", "signed_by_public_key", "wrong_key", "unknown_key", "no_id_token", "expired_code",
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_believed_ends_at_a_page_with_an_id(
    idp: IdentityProvider, fault: str
) -> None:
    idp.fault = fault
    browser = Client()
    answer = sign_in(idp, browser)
    assert answer.status_code == 403
    assert "cannot be believed" in words(answer)
    assert "request-id" in words(answer)
    assert browser.get("/").status_code == 302
    assert last_refusal() == "provider_failed"


@pytest.mark.parametrize(
    ("fault", "status"), [("broken", 503), ("wrong_issuer", 403), ("keys_elsewhere", 403)]
)
def test_a_provider_that_is_not_itself_is_not_gone_to(idp: IdentityProvider, fault: str, status: int) -> None:
    idp.fault = fault
    answer = Client().post(BEGIN)
    assert answer.status_code == status
    assert "Harbour ID" in words(answer)


def test_a_provider_that_does_not_answer_leaves_the_password(
    people: People, idp: IdentityProvider, settings: Any
) -> None:
    dead = IdentityProvider()
    dead.close()
    settings.BERTH_OIDC_PROVIDERS = (replace(settings.BERTH_OIDC_PROVIDERS[0], issuer=dead.issuer),)
    answer = Client().post(BEGIN)
    assert answer.status_code == 503
    assert "sign in with a password" in words(answer)


def test_a_code_works_once_and_in_the_browser_that_asked(idp: IdentityProvider) -> None:
    browser = Client()
    url = come_back(idp, browser)
    assert Client().get(url).status_code == 403
    assert last_refusal() == "stale_sign_in"
    assert browser.get(url).status_code == 302
    replayed = browser.get(url)
    assert replayed.status_code == 403
    assert "Start again" in words(replayed)


def test_cancelled_sign_in_is_reported(idp: IdentityProvider) -> None:
    browser = Client()
    state = come_back(idp, browser).partition("state=")[2]
    answer = browser.get(f"{BEGIN}callback/?error=access_denied&state={state}", follow=True)
    assert "Nobody is signed in" in words(answer)


def test_projects_follow_groups_where_the_settings_say_so(
    people: People, idp: IdentityProvider, settings: Any
) -> None:
    second, third = make_project(people.domain), make_project(people.domain)
    service.add_member(actor=SYSTEM, project=third, user=people.member)
    admit(settings, groups={"staff": (second.name,), "old": (people.project.name,)})
    idp.person["groups"] = ["staff", "else"]
    assert sign_in(idp).status_code == 302
    assert set(people.member.projects.all()) == {second, third}
    idp.person["groups"] = "staff"
    assert sign_in(idp).status_code == 302
    assert set(people.member.projects.all()) == {second, third}


def test_nobody_is_sent_to_another_site_afterwards(idp: IdentityProvider) -> None:
    assert sign_in(idp, next="https://evil.example/")["Location"] == "/"


def test_who_begins_too_often_keeps_out_no_known_browser_and_who_comes_in_is_not_counted(
    people: People, idp: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = dict.fromkeys((AttemptLimit.PLACE, AttemptLimit.ADDRESS), Rate(2, timedelta(hours=1)))
    monkeypatch.setattr("accounts.sign_in.throttle.RATES", {Purpose.PROVIDER: few})
    known = Client()
    for browser in (Client(), Client(), known):
        assert sign_in(idp, browser)["Location"] == "/"
    known.post("/account/logout/")
    assert [Client().post(BEGIN).status_code for _ in range(3)] == [200, 200, 429]
    assert sign_in(idp, known)["Location"] == "/"
    known.post("/account/logout/")
    assert [known.post(BEGIN).status_code for _ in range(3)] == [200, 200, 429]


def test_an_unknown_provider_is_not_there(people: People) -> None:
    assert Client().post("/sign-in/by/else/").status_code == 404


def test_a_second_factor_and_networks_hold_for_a_provider(people: People, idp: IdentityProvider) -> None:
    give_app(people.member)
    browser = Client()
    assert sign_in(idp, browser)["Location"] == "/account/2fa/authenticate/"
    assert browser.get("/profile/").status_code == 302
    User.objects.filter(pk=people.member.pk).update(allowed_networks=["192.0.2.0/24"])
    assert sign_in(idp).status_code == 403


@pytest.mark.parametrize("claim", ["sub", "email"])
@pytest.mark.parametrize(
    "text", ["a\0b@berth.example", "a\ud800@berth.example", "x" * 300 + "@berth.example"]
)
def test_who_is_called_by_what_cannot_be_kept_is_not_believed(
    idp: IdentityProvider, claim: str, text: str
) -> None:
    idp.person[claim] = text
    assert sign_in(idp).status_code == 403
    assert last_refusal() == "provider_failed"
    assert not SocialAccount.objects.exists()


def test_signs_that_nobody_sees_are_no_part_of_a_name_or_group(
    people: People, idp: IdentityProvider, settings: Any
) -> None:
    admit(settings, groups={"staff": (people.project.name,)})
    idp.person = {"sub": "48", "email": "grace@berth.example", "email_verified": True}
    idp.person |= {"name": "Gr\0ace", "groups": ["staff", "st\0aff", "cn=a\\00b,ou=c", 7, "\ud800"]}
    assert sign_in(idp).status_code == 302
    assert User.objects.get(email="grace@berth.example").name == "Gr\N{REPLACEMENT CHARACTER}ace"
    assert SocialAccount.objects.get().extra_data == {"groups": ["7", "staff"]}


def test_groups_are_one_in_all_their_forms_and_a_subject_is_kept_as_it_came(
    people: People, idp: IdentityProvider, settings: Any
) -> None:
    second, apart = make_project(people.domain), "e\u0301quipe"
    its = Variables({"X_TRUSTS": "berth.example", "X_GROUPS": f"{apart}:{second.name}"}, "X_")
    admit(settings, groups=read_onboarding_rules(its).groups)
    idp.person |= {"sub": apart, "groups": [apart]}
    for groups in ([apart], ["\u00e9quipe"]):
        idp.person["groups"] = groups
        assert sign_in(idp).status_code == 302
        assert second in people.member.projects.all()
    known = SocialAccount.objects.get()
    assert (known.uid, known.extra_data) == (apart, {"groups": ["\u00e9quipe"]})
