"""Throttling of passwords, codes and requested mails, without locking out owners."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from allauth.account import app_settings as allauth_settings
from django.contrib.auth.hashers import MD5PasswordHasher
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.core.sign_up import SignUp
from accounts.core.throttle import ACCOUNT_RATES, GUESS_RATES, MAIL_RATES, SIGN_UP_RATES, AttemptLimit
from accounts.core.token_secrets import hash_secret
from accounts.logins import service
from accounts.logins.trusted_devices import COOKIE
from accounts.models import AttemptCount, KnownPlace, User
from accounts.sign_in import admin_control, throttle
from accounts.tasks import purge_sign_ins
from accounts.tenancy import offboarding
from common import clock
from common.actors import SYSTEM
from common.models import AuditEntry
from portal.models import Notification
from tests.conftest import People
from tests.factories import PASSWORD, actor_for, give_app
from tests.factories_entrance import make_invitation, open_domain

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PLACE, ACCOUNT, ADDRESS = (
    GUESS_RATES[limit].burst for limit in (AttemptLimit.PLACE, AttemptLimit.ACCOUNT, AttemptLimit.ADDRESS)
)
HERE, ELSEWHERE = "203.0.113.7", "198.51.100.1"


def sign_in(user: User | str, password: str, ip: str, browser: Client | None = None) -> HttpResponse:
    asked = {"login": user.email if isinstance(user, User) else user, "password": password}
    return (browser or Client()).post("/account/login/", asked, REMOTE_ADDR=ip)


def use_up(user: User | str, ip: str, times: int = PLACE) -> None:
    for _ in range(times):
        assert sign_in(user, "wrong", ip).status_code == 200


def use_up_from_everywhere(user: User) -> None:
    for number in range(ACCOUNT // PLACE):
        use_up(user, f"192.0.2.{number}")


def test_a_place_that_guesses_waits_and_no_other_place_does(people: People) -> None:
    with clock.frozen_at(NOON):
        use_up(people.member, ELSEWHERE)
        refused = sign_in(people.member, PASSWORD, ELSEWHERE)
        assert (refused.status_code, refused["Retry-After"]) == (429, "61")
        page = refused.content.decode()
        assert "too many wrong passwords" in page
        assert "Try again in 2 minutes." in page
        assert sign_in(people.member, PASSWORD, HERE).status_code == 302
        assert sign_in(people.outsider, PASSWORD, ELSEWHERE).status_code == 302
    with clock.frozen_at(NOON + timedelta(minutes=1)):
        assert sign_in(people.member, PASSWORD, ELSEWHERE).status_code == 302


def test_known_device_signs_in_during_guessing(people: People) -> None:
    browser = Client()
    with clock.frozen_at(NOON):
        sign_in(people.member, PASSWORD, HERE, browser)
        browser.post("/account/logout/")
        use_up_from_everywhere(people.member)
        refused = sign_in(people.member, PASSWORD, ELSEWHERE)
        assert refused.status_code == 429
        assert "signed in recently" in refused.content.decode()
        assert sign_in(people.member, PASSWORD, HERE).status_code == 302  # the network
        assert sign_in(people.member, PASSWORD, "2001:db8::1", browser).status_code == 302  # the browser
        assert sign_in(people.outsider, PASSWORD, "192.0.2.0").status_code == 302


def test_a_browser_is_not_kept_out_by_who_guesses_in_its_own_network(people: People) -> None:
    browser = Client()
    sign_in(people.member, PASSWORD, HERE, browser)
    browser.post("/account/logout/")
    use_up(people.member, HERE)
    assert sign_in(people.member, PASSWORD, HERE).status_code == 429
    assert sign_in(people.member, PASSWORD, HERE, browser).status_code == 302


def test_the_known_browser_of_one_is_nothing_to_another_account(people: People) -> None:
    browser = Client()
    sign_in(people.outsider, PASSWORD, HERE, browser)
    browser.post("/account/logout/")
    use_up_from_everywhere(people.member)
    assert sign_in(people.member, PASSWORD, HERE, browser).status_code == 429


def test_a_name_that_somebody_else_put_into_a_browser_is_replaced(people: People) -> None:
    browser = Client()
    browser.cookies[COOKIE] = "planted"
    sign_in(people.member, PASSWORD, HERE, browser)
    given = browser.cookies[COOKIE]
    assert given.value != "planted"
    assert (given["httponly"], given["samesite"]) == (True, "Lax")
    kept = given.value
    browser.post("/account/logout/")
    sign_in(people.member, PASSWORD, HERE, browser)
    assert browser.cookies[COOKIE].value == kept
    assert KnownPlace.objects.filter(user=people.member, name__startswith="device:").count() == 1
    assert kept not in str(list(KnownPlace.objects.values()))


def test_a_new_password_makes_every_place_strange_but_this_browser(people: People) -> None:
    here, there, new = Client(), Client(), "another quiet harbour"
    sign_in(people.member, PASSWORD, HERE, here)
    sign_in(people.member, PASSWORD, ELSEWHERE, there)
    here.post("/account/password/change/", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    place = KnownPlace.objects.get(user=people.member)
    assert place.name == f"device:{hash_secret(here.cookies[COOKIE].value)[:40]}"


@pytest.mark.parametrize(
    "end",
    [
        lambda user: admin_control.end_user_logins(actor=SYSTEM, user_id=user.pk),
        lambda user: service.end_other_logins(actor=actor_for(user), except_key=""),
        lambda user: offboarding.close_user(actor=SYSTEM, user_id=user.pk),
    ],
)
def test_signing_out_everywhere_forgets_trusted_devices(people: People, end: Any) -> None:
    for user in (people.member, people.outsider):
        sign_in(user, PASSWORD, HERE)
    end(people.member)
    assert not KnownPlace.objects.filter(user=people.member).exists()
    assert KnownPlace.objects.filter(user=people.outsider).count() == 2


def test_one_address_tries_only_so_many_accounts(people: People) -> None:
    with clock.frozen_at(NOON):
        for number in range(ADDRESS):
            sign_in(f"person-{number}@elsewhere.example", "wrong", ELSEWHERE)
        assert sign_in(people.member, PASSWORD, ELSEWHERE).status_code == 429


def test_a_customer_of_ipv6_is_one_address(people: People) -> None:
    for number in range(PLACE):
        assert sign_in(people.member, "wrong", f"2001:db8::{number:x}").status_code == 200
    assert sign_in(people.member, PASSWORD, "2001:db8::ffff").status_code == 429
    assert sign_in(people.member, PASSWORD, "2001:db8:0:1::1").status_code == 302


def test_right_passwords_use_nothing_up(people: People) -> None:
    for _ in range(2 * PLACE):
        assert sign_in(people.member, PASSWORD, HERE).status_code == 302


def test_clock_set_back_locks_nobody_out(people: People) -> None:
    with clock.frozen_at(NOON):
        use_up(people.member, HERE)
    with clock.frozen_at(NOON - timedelta(hours=2)):
        assert sign_in(people.member, PASSWORD, HERE).status_code == 302


def test_strangers_write_few_lines_and_the_person_hears_of_it_once(
    people: People, django_capture_on_commit_callbacks: Any
) -> None:
    with clock.frozen_at(NOON), django_capture_on_commit_callbacks(execute=True):
        use_up_from_everywhere(people.member)
        for number in range(30):
            for ip in (f"198.51.100.{number}", f"2001:db8:7::{number:x}"):
                assert sign_in(people.member, "wrong", ip).status_code == 429
    told = AuditEntry.objects.filter(reason="too_many_attempts")
    assert [(entry.count, entry.target_id, entry.action) for entry in told] == [
        (60, str(people.member.pk), "accounts.sign_in")
    ]
    assert not AuditEntry.objects.filter(action="requests.refuse").exists()
    assert Notification.objects.get(person=people.member).code == "passwords_tried"


def test_throttled_link_requests_are_no_password_guesses(
    people: People, settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    settings.BERTH_MAIL = True
    with clock.frozen_at(NOON), django_capture_on_commit_callbacks(execute=True):
        for number in range(MAIL_RATES[AttemptLimit.ACCOUNT].burst + 1):
            answer = Client().post(
                "/account/password/reset/", {"email": people.member.email}, REMOTE_ADDR=f"192.0.2.{number}"
            )
    assert answer.status_code == 429
    assert not Notification.objects.exists()


def test_unknown_and_known_addresses_cost_the_same(people: People, monkeypatch: Any) -> None:
    """One hash each, and the same number of queries; so their times differ by nothing that grows."""
    hashed = []
    encode = MD5PasswordHasher.encode
    monkeypatch.setattr(
        MD5PasswordHasher, "encode", lambda self, *given: (hashed.append(1), encode(self, *given))[1]
    )
    locked = User.objects.get(pk=people.outsider.pk)
    locked.set_unusable_password()
    locked.save()
    costs = []
    for number, email in enumerate((people.member.email, locked.email, "nobody@berth.example")):
        hashed.clear()
        with CaptureQueriesContext(
            connection,
        ) as queries:
            sign_in(email, "wrong", f"192.0.2.{number}")
        costs.append((len(hashed), len(queries)))
    assert costs[0] == costs[1] == costs[2]
    assert costs[0][0] == 1


def test_codes_are_counted_like_passwords(people: People) -> None:
    give_app(people.member)
    browser = Client(REMOTE_ADDR=ELSEWHERE)
    sign_in(people.member, PASSWORD, ELSEWHERE, browser)
    answers = [browser.post("/account/2fa/authenticate/", {"code": "123456"}) for _ in range(PLACE + 1)]
    assert [answer.status_code for answer in answers] == [200] * PLACE + [429]
    assert "wrong codes" in answers[-1].content.decode()


def test_mails_to_one_address_are_limited_and_the_owner_still_gets_one(
    people: People, settings: Any, mailoutbox: list[Any]
) -> None:
    settings.BERTH_MAIL = True
    browser = Client()
    sign_in(people.member, PASSWORD, HERE, browser)
    browser.post("/account/logout/")
    ask = {"email": people.member.email}
    statuses = [
        Client().post("/account/password/reset/", ask, REMOTE_ADDR=f"192.0.2.{number}").status_code
        for number in range(12)
    ]
    assert statuses == [302] * 10 + [429] * 2
    assert browser.post("/account/password/reset/", ask, REMOTE_ADDR=HERE).status_code == 302
    told = AuditEntry.objects.filter(action="accounts.ask_password_reset", outcome="done")
    assert {entry.target_id for entry in told} == {str(people.member.pk)}
    assert told.count() == 11


def test_what_counts_nothing_any_more_is_forgotten(people: People) -> None:
    with clock.frozen_at(NOON):
        use_up(people.member, ELSEWHERE, 1)
        sign_in(people.member, PASSWORD, HERE)
    with clock.frozen_at(NOON + timedelta(days=91)):
        purge_sign_ins()
    assert not AttemptCount.objects.exists()
    assert not KnownPlace.objects.exists()


def test_signed_in_user_guesses_passwords_no_faster(people: People) -> None:
    """Whoever finds a browser open, and wants the password, too."""
    browser, new = Client(), "another quiet harbour"
    browser.force_login(people.member, backend="accounts.sign_in.auth_backends.SignInBackend")
    asked = {"oldpassword": "wrong", "password1": new, "password2": new}
    with clock.frozen_at(NOON):
        answers = [browser.post("/account/password/change/", asked).status_code for _ in range(PLACE + 1)]
        assert answers == [200] * PLACE + [429]
        asked["oldpassword"] = PASSWORD
        assert browser.post("/account/password/change/", asked).status_code == 429
    with clock.frozen_at(NOON + timedelta(minutes=1)):
        assert browser.post("/account/password/change/", asked).status_code == 302


def test_a_place_makes_accounts_by_invitation_so_fast_and_no_faster(people: People) -> None:
    _, code = make_invitation(people.domain, people.domain_admin)
    taken = {"email": people.member.email, "password": PASSWORD}
    at_once = ACCOUNT_RATES[AttemptLimit.PLACE].burst
    with clock.frozen_at(NOON):
        answers = [Client().post(f"/invitation/{code}/", taken).status_code for _ in range(at_once + 1)]
        assert answers == [422] * at_once + [429]
        there = Client(REMOTE_ADDR=ELSEWHERE)
        assert there.post(f"/invitation/{code}/", taken).status_code == 422
    line = AuditEntry.objects.get(action="accounts.accept_invitation", outcome="refused")
    assert line.reason == "too_many_attempts"


def test_an_address_gets_few_mails_for_signing_up_from_wherever_they_are_asked_for(
    people: People, settings: Any
) -> None:
    settings.BERTH_MAIL = True
    open_domain(people.domain, SignUp.OPEN, people.member.email.partition("@")[2])
    most = SIGN_UP_RATES[AttemptLimit.ACCOUNT].burst
    with clock.frozen_at(NOON):
        answers = [
            Client(REMOTE_ADDR=f"192.0.2.{number}").post("/sign-up/", {"email": people.member.email})
            for number in range(most + 1)
        ]
    assert [answer.status_code for answer in answers] == [202] * most + [429]
    assert "too many attempts to sign up" in answers[-1].content.decode()
    assert not Notification.objects.exists()


def test_nothing_of_a_sign_in_is_counted_by_django_allauth() -> None:
    counted = {name for name, rate in allauth_settings.RATE_LIMITS.items() if rate}
    assert not counted & {
        "login",
        "login_failed",
        "signup",
        "change_password",
        "reauthenticate",
        "reset_password",
    }


def test_late_concurrent_attempt_is_refused_and_not_counted(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    with clock.frozen_at(NOON):
        use_up(people.member, ELSEWHERE)
        before = dict(AttemptCount.objects.values_list("key", "spent_until"))
        monkeypatch.setattr(
            throttle, "_waiting_times", lambda counts: {}
        )  # as it looked before the others were counted
        assert sign_in(people.member, PASSWORD, ELSEWHERE).status_code == 429
        assert dict(AttemptCount.objects.values_list("key", "spent_until")) == before
