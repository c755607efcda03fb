"""The limit of concurrent logins ends the oldest login, with a reason, also under concurrency."""

import threading
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from accounts.logins.concurrent_logins import COOKIE, login_limit, purge_ended_logins
from accounts.logins.service import Login, valid_logins
from accounts.models import BrowserLogin, EndedLogin, User
from common.models import AuditEntry
from tests import factories
from tests.factories import PASSWORD, api_client, make_user
from tests.factories_limits import limit

pytestmark = pytest.mark.django_db
SIGN_IN = "/account/login/"


def sign_in(user: User, ip: str = "192.0.2.1") -> Client:
    browser = Client(REMOTE_ADDR=ip)
    browser.post(SIGN_IN, {"login": user.email, "password": PASSWORD})
    return browser


def led_to(user: User, ip: str) -> str:
    """Where a sign-in leads."""
    answer = Client(REMOTE_ADDR=ip).post(SIGN_IN, {"login": user.email, "password": PASSWORD})
    return str(answer["Location"])


def is_in(browser: Client) -> bool:
    return bool(browser.get("/profile/").status_code == 200)


def test_one_more_sign_in_ends_the_oldest_login(monkeypatch: pytest.MonkeyPatch) -> None:
    user, other = make_user(), make_user()
    strange = sign_in(other)
    limit(user, max_browsers=2)
    first, second = sign_in(user), sign_in(user)
    held = Login(user_id=user.pk, session_key=first.session.session_key or "")
    assert valid_logins([held])
    rung: list[None] = []
    monkeypatch.setattr(
        "accounts.logins.revocation_signals.broadcast_revocation_on_commit", lambda: rung.append(None)
    )
    third = sign_in(user)
    assert not valid_logins([held])
    assert rung
    assert [is_in(browser) for browser in (first, second, third, strange)] == [False, True, True, True]
    [line] = AuditEntry.objects.filter(action="accounts.end_oldest_logins")
    assert (line.actor_id, line.target_id, line.changes["allowed"]) == (user.pk, str(user.pk), 2)


def test_ended_login_shows_its_reason_until_the_next_sign_in() -> None:
    user = make_user()
    limit(user, max_browsers=1)
    ended = sign_in(user)
    sign_in(user)
    why = "You signed in elsewhere; your policy allows 1 browser at once."
    assert why in ended.get(SIGN_IN).content.decode()
    assert ended.get("/profile/").status_code == 302
    for _look in range(2):
        assert why in ended.get(SIGN_IN).content.decode()
    ended.post(SIGN_IN, {"login": user.email, "password": PASSWORD})
    assert is_in(ended)
    assert ended.cookies[COOKIE].value == ""
    assert why not in Client().get(SIGN_IN).content.decode()


@pytest.mark.parametrize("name", ["x" * 64, "0" * 64, '"\\000"', ""])
def test_a_made_up_cookie_says_nothing(name: str) -> None:
    browser = Client()
    browser.cookies[COOKIE] = name
    answer = browser.get(SIGN_IN)
    assert answer.status_code == 200
    assert "signed in elsewhere" not in answer.content.decode()


def test_the_least_of_person_and_domain_counts_and_projects_say_nothing() -> None:
    project = factories.make_project()
    user = make_user(member_of=project)
    assert login_limit(user) is None
    limit(project, max_browsers=1)
    assert login_limit(user) is None
    limit(project.domain, max_browsers=5)
    assert login_limit(user) == 5
    limit(user, max_browsers=3)
    assert login_limit(user) == 3
    limit(project.domain, max_browsers=2)
    assert login_limit(user) == 2


def test_a_lower_limit_ends_nothing_before_the_next_sign_in() -> None:
    user = make_user()
    before = [sign_in(user) for _ in range(4)]
    limit(user, max_browsers=2)
    assert all(map(is_in, before))
    browsers = [*before, sign_in(user)]
    assert [is_in(browser) for browser in browsers] == [False, False, False, True, True]


def test_a_changed_password_leaves_the_browser_its_place() -> None:
    user = make_user()
    limit(user, max_browsers=2)
    first, second = sign_in(user), sign_in(user)
    new = "another quiet harbour"
    first.post("/account/password/change/", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    assert (is_in(first), is_in(second)) == (True, False)
    assert BrowserLogin.objects.filter(user=user).count() == 1


def test_people_read_how_many_browsers_they_have() -> None:
    user = make_user()
    limit(user, max_browsers=3)
    sign_in(user)
    browser = sign_in(user)
    assert "2 of 3 browsers" in browser.get("/profile/security/").content.decode()
    assert "Concurrent logins" in browser.get("/profile/").content.decode()
    limits = api_client(user).get("/api/v1/limits/").json()["limits"]
    assert [(each["limit"], each["value"]) for each in limits if each["limit"] == "browsers"] == [
        ("browsers", 3)
    ]


def test_reasons_of_ended_logins_expire(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    user = make_user()
    limit(user, max_browsers=1)
    sign_in(user)
    sign_in(user)
    purge_ended_logins()
    assert EndedLogin.objects.count() == 1
    settings.SESSION_COOKIE_AGE = -1
    purge_ended_logins()
    assert not EndedLogin.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(120)
def test_of_sign_ins_at_the_same_moment_no_more_stay_than_may() -> None:
    user, workers = make_user(), 8
    wrong: list[Exception] = []
    answers: list[str] = []
    limit(user, max_browsers=2)
    gate = threading.Barrier(workers)

    def run(number: int) -> None:
        try:
            gate.wait(timeout=30)
            answers.extend(led_to(user, f"192.0.2.{number}") for _again in range(3))
        except Exception as error:  # noqa: BLE001
            wrong.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert BrowserLogin.objects.filter(user=user).count() == 2
    assert set(answers) <= {"/", SIGN_IN}  # the latter: signed out again before the answer was written
    assert answers.count("/") >= 2


def test_sign_in_restarts_after_a_sign_out_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    user = make_user()
    limit(user, max_browsers=1)

    def sign_in_elsewhere(*arguments: Any, **more: Any) -> None:
        monkeypatch.undo()
        sign_in(user, "192.0.2.2")

    monkeypatch.setattr(
        "accounts.web.sign_in.required_action_middleware.set_reason_cookie", sign_in_elsewhere
    )
    assert led_to(user, "192.0.2.1") == SIGN_IN
