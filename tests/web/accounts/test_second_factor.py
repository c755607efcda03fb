"""Second factors: set-up, sign-in, loss, and requirement by the domain."""

import re
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.core.cache import cache
from django.test import Client

from accounts.core.sign_in_requirements import SecondFactor
from accounts.logins.required_actions import users_with_second_factor
from accounts.models import User
from accounts.sign_in import second_factor
from accounts.tenancy.service import create_sign_in_link
from common.actors import SYSTEM
from common.models import AuditEntry
from tests.conftest import People
from tests.factories import APP_SECRET, PASSWORD, api_client, give_app

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _unthrottled(settings: Any) -> None:
    settings.ACCOUNT_RATE_LIMITS = False
    cache.clear()


def code_for(secret: str) -> str:
    """What an authenticator app shows now."""
    return format_hotp_value(hotp_value(secret, next(iter(yield_hotp_counters_from_time()))))


def browser_of(user: User) -> Client:
    browser = Client()
    browser.force_login(user, backend="accounts.sign_in.auth_backends.SignInBackend")
    return browser


def sign_in(user: User) -> tuple[Client, Any]:
    browser = Client()
    answer = browser.post("/account/login/", {"login": user.email, "password": PASSWORD})
    return browser, answer


def told(action: str) -> int:
    return AuditEntry.objects.filter(action=action).count()


def test_an_app_is_set_up_after_the_password_and_gives_recovery_codes_once(
    people: People, django_capture_on_commit_callbacks: Any
) -> None:
    browser = browser_of(people.member)
    assert "/account/reauthenticate/" in browser.get("/account/2fa/totp/activate/")["Location"]
    answer = browser.post("/account/reauthenticate/?next=/account/2fa/totp/activate/", {"password": PASSWORD})
    assert answer["Location"] == "/account/2fa/totp/activate/"
    page = browser.get("/account/2fa/totp/activate/").content.decode()
    secret = re.search(r'id="totp-secret"[^>]*>([A-Z2-7]+)<', page)
    assert secret is not None
    assert '<svg class="qr-code"' in page
    assert "style=" not in page
    wrong = browser.post("/account/2fa/totp/activate/", {"code": "000000"})
    assert "This code is not right" in wrong.content.decode()
    with django_capture_on_commit_callbacks(execute=True):
        browser.post("/account/2fa/totp/activate/", {"code": code_for(secret[1])})
    row = Authenticator.objects.get(user=people.member, type="totp")
    assert secret[1] not in str(row.data)

    shown = browser.get("/account/2fa/recovery-codes/").content.decode()
    assert len(re.findall(r"^\d{10}$|>\d{10}$", shown, re.MULTILINE)) >= 9
    again = browser.get("/account/2fa/recovery-codes/").content.decode()
    assert "cannot be shown again" in again
    assert not re.search(r"\d{10}", re.sub(r'data-events-after="[^"]*"', "", again))
    assert browser.get("/account/2fa/recovery-codes/download/").status_code == 403
    assert told("accounts.add_second_factor") == told("accounts.make_recovery_codes") == 1


def test_the_password_alone_opens_nothing_then(people: People) -> None:
    give_app(people.member)
    browser, answer = sign_in(people.member)
    assert answer["Location"] == "/account/2fa/authenticate/"
    assert browser.get("/profile/").status_code == 302
    refused = browser.post("/account/2fa/authenticate/", {"code": "123456"})
    assert "This code is not right" in refused.content.decode()
    assert AuditEntry.objects.get(reason="wrong_second_factor").target_label == people.member.email
    browser.post("/account/2fa/authenticate/", {"code": code_for(APP_SECRET)})
    assert browser.get("/profile/").status_code == 200


def test_a_code_works_once(people: People) -> None:
    give_app(people.member)
    code = code_for(APP_SECRET)
    first, second = sign_in(people.member)[0], sign_in(people.member)[0]
    first.post("/account/2fa/authenticate/", {"code": code})
    second.post("/account/2fa/authenticate/", {"code": code})
    assert first.get("/profile/").status_code == 200
    assert second.get("/profile/").status_code == 302


def test_a_recovery_code_works_once_and_is_in_the_access_log(people: People) -> None:
    give_app(people.member)
    codes = second_factor.Authenticator.objects.create(
        user=people.member,
        type="recovery_codes",
        data={"seed": second_factor.SecondFactorAdapter().encrypt("ab" * 20), "used_mask": 0},
    )
    code = codes.wrap().generate_codes()[0]
    for expected in (200, 302):
        browser, _answer = sign_in(people.member)
        browser.post("/account/2fa/authenticate/", {"code": code})
        assert browser.get("/profile/").status_code == expected
    assert told("accounts.use_recovery_code") == 1


def test_a_sign_in_link_does_not_go_round_it(people: People) -> None:
    give_app(people.member)
    browser = Client()
    code = create_sign_in_link(actor=SYSTEM, user=people.member)
    answer = browser.post(f"/sign-in/once/{code}/")
    assert answer["Location"] == "/account/2fa/authenticate/"
    assert browser.get("/profile/").status_code == 302


def test_wrong_codes_are_throttled(people: People) -> None:
    give_app(people.member)
    browser, _answer = sign_in(people.member)
    for _ in range(6):
        browser.post("/account/2fa/authenticate/", {"code": "123456"})
    late = browser.post("/account/2fa/authenticate/", {"code": code_for(APP_SECRET)})
    assert "too many wrong codes" in late.content.decode()
    assert browser.get("/profile/").status_code == 302


def test_what_another_key_encrypted_matches_no_code(people: People, settings: Any) -> None:
    give_app(people.member)
    settings.SECRET_KEY = "another"
    row = Authenticator.objects.get(user=people.member)
    assert not row.wrap().validate_code(code_for(APP_SECRET))


@pytest.mark.parametrize(
    ("policy", "led"),
    [
        (SecondFactor.OPTIONAL, set()),
        (SecondFactor.ADMINS, {"admin"}),
        (SecondFactor.EVERYBODY, {"admin", "member"}),
    ],
)
def test_required_second_factor_leads_to_its_set_up(
    people: People, policy: SecondFactor, led: set[str]
) -> None:
    domain = people.member.domain
    domain.second_factor = policy.value
    domain.save(update_fields=["second_factor"])
    for name, user in {"admin": people.domain_admin, "member": people.member}.items():
        browser = browser_of(user)
        answer = browser.get("/sessions/")
        assert (answer.get("Location") == "/account/2fa/") == (name in led)
        rest = browser.get("/api/v1/me/")
        assert rest.status_code == (403 if name in led else 200)
        assert (
            api_client(user).get("/api/v1/me/").status_code == 200
        )  # tokens were made before, or after setting one up
        if name in led:
            assert rest.json()["code"] == "second_factor_required"
            assert browser.get("/account/2fa/").status_code == 200
            give_app(user)
            assert browser.get("/sessions/").status_code == 200


def test_an_administrator_takes_away_a_lost_one(people: People) -> None:
    give_app(people.member)
    admin = browser_of(people.domain_admin)
    assert "Has a second factor." in admin.get(f"/people/{people.member.pk}/").content.decode()
    address = f"/people/{people.member.pk}/second-factor/reset/"
    assert browser_of(people.member).post(address).status_code == 404
    assert admin.post(address).status_code == 302
    assert not users_with_second_factor([people.member.pk])
    assert told("accounts.reset_second_factor") == 1
    assert "has no second factor" in admin.post(address, follow=True).content.decode()


def test_nobody_resets_the_own_one_or_one_above(people: People) -> None:
    for user in (people.domain_admin, people.superadmin):
        give_app(user)
        browser_of(people.domain_admin).post(f"/people/{user.pk}/second-factor/reset/")
        assert users_with_second_factor([user.pk])


def test_the_security_page_shows_what_there_is(people: People) -> None:
    browser = browser_of(people.member)
    assert "Set up an app" in browser.get("/profile/security/").content.decode()
    give_app(people.member)
    Authenticator.objects.create(
        user=people.member, type="webauthn", data={"name": "Blue key", "credential": {}}
    )
    page = browser.get("/profile/security/").content.decode()
    assert "Remove the app" in page
    assert "Blue key" in page
    assert "after the password" in page


def test_pages_of_passkeys_have_no_inline_script(people: People) -> None:
    browser = browser_of(people.member)
    browser.post("/account/reauthenticate/", {"password": PASSWORD})
    page = browser.get("/account/2fa/webauthn/add/").content.decode()
    assert 'data-passkey="create"' in page
    assert "&quot;challenge&quot;" in page
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    options = Client().get("/account/2fa/webauthn/login/", headers={"accept": "application/json"})
    assert options.json()["request_options"]["publicKey"]["userVerification"] == "required"


def test_other_browsers_are_listed_and_signed_out(people: People) -> None:
    here, there, other = (browser_of(people.member) for _ in range(3))
    stranger = browser_of(people.domain_admin)
    page = here.get("/profile/security/").content.decode()
    ids = re.findall(r"/profile/security/logins/(\w+)/end/", page)
    assert len(ids) == 2
    assert here.session.session_key not in page
    assert stranger.post(f"/profile/security/logins/{ids[0]}/end/").status_code == 404
    here.post(f"/profile/security/logins/{ids[0]}/end/")
    assert sorted(browser.get("/profile/").status_code for browser in (here, there, other)) == [200, 200, 302]
    here.post("/profile/security/logins/end/")
    assert sorted(browser.get("/profile/").status_code for browser in (here, there, other)) == [200, 302, 302]
    assert told("accounts.end_login") == told("accounts.end_other_logins") == 1


def test_networks_hold_for_a_sign_in_link(people: People) -> None:
    User.objects.filter(pk=people.member.pk).update(allowed_networks=["10.1.0.0/16"])
    browser = Client()
    answer = browser.post(f"/sign-in/once/{create_sign_in_link(actor=SYSTEM, user=people.member)}/")
    assert "may not be used from 127.0.0.1" in answer.content.decode()
    assert browser.get("/profile/").status_code == 302
