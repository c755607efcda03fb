"""REST of logins: one's own, and those that administrators may end."""

from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from common.models import AuditEntry
from tests.conftest import People
from tests.factories import PASSWORD, api_client, give_app

pytestmark = pytest.mark.django_db
OWN, USERS = "/api/v1/me/logins/", "/api/v1/users/"


def signed_in(user: User) -> Client:
    browser = Client()
    browser.post("/account/login/", {"login": user.email, "password": PASSWORD})
    return browser


def told(action: str) -> int:
    return AuditEntry.objects.filter(action=action, outcome="done").count()


def test_ones_own_browsers_are_listed_and_ended(people: People) -> None:
    here, there, program = signed_in(people.member), signed_in(people.member), api_client(people.member)
    signed_in(people.outsider)
    rows = here.get(OWN).json()["results"]
    assert sorted(row["is_this"] for row in rows) == [False, True]
    assert {row["ip"] for row in rows} == {"127.0.0.1"}
    assert not any(row["is_this"] for row in program.get(OWN).json()["results"])

    other = next(row["id"] for row in rows if not row["is_this"])
    assert program.delete(f"{OWN}{other}/").status_code == 204
    assert program.delete(f"{OWN}{other}/").status_code == 404
    assert there.get("/profile/").status_code == 302
    signed_in(people.member)
    assert program.delete(OWN).json() == {"ended": 2}
    assert here.get("/profile/").status_code == 302


def test_an_administrator_ends_all_logins_of_somebody(people: People) -> None:
    browser, admin = signed_in(people.member), api_client(people.domain_admin)
    assert admin.get(f"{USERS}{people.member.pk}/sign-in/").json() == {
        "must_change_password": False,
        "allowed_networks": [],
        "has_password": True,
        "has_second_factor": False,
        "logins": 1,
    }
    assert admin.delete(f"{USERS}{people.member.pk}/logins/").json() == {"ended": 1}
    assert browser.get("/profile/").status_code == 302
    assert admin.delete(f"{USERS}{people.superadmin.pk}/logins/").status_code == 403
    assert api_client(people.project_admin).delete(f"{USERS}{people.member.pk}/logins/").status_code == 403
    assert told("accounts.end_user_logins") == 1


def test_another_password_is_demanded_and_networks_are_set(people: People) -> None:
    admin, address = api_client(people.domain_admin), f"{USERS}{people.member.pk}/sign-in/"
    answer = admin.patch(address, {"must_change_password": True, "allowed_networks": ["192.0.2.1"]})
    assert answer.json()["allowed_networks"] == ["192.0.2.1/32"]
    people.member.refresh_from_db()
    assert people.member.must_change_password
    assert admin.patch(address, {"allowed_networks": ["harbour"]}).status_code == 400
    assert admin.patch(address, {"must_change": True}).status_code == 400


def test_a_lost_second_factor_is_taken_away(people: People) -> None:
    admin, address = api_client(people.domain_admin), f"{USERS}{people.member.pk}/second-factor/"
    assert admin.delete(address).status_code == 409
    give_app(people.member)
    assert admin.delete(address).status_code == 204
    assert told("accounts.reset_second_factor") == 1


def test_who_was_given_a_password_chooses_another_one(people: People) -> None:
    asked = {"email": "new@berth.example", "password": PASSWORD}
    made = api_client(people.domain_admin).post(USERS, asked)
    assert (made.status_code, made.json()["sign_in_url"]) == (201, "")
    browser = signed_in(User.objects.get(email="new@berth.example"))
    assert browser.get("/sessions/")["Location"] == "/account/password/change/"


def test_a_mail_for_another_password_works_and_is_not_sent_without_end(
    people: People, settings: Any, mailoutbox: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    admin, address = api_client(people.domain_admin), f"{USERS}{people.member.pk}/password-mail/"
    assert admin.post(address).status_code == 409
    settings.BERTH_MAIL = True
    with django_capture_on_commit_callbacks(execute=True):
        answers = [admin.post(address) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [202, 202, 202, 429]
    assert int(answers[-1]["Retry-After"]) > 0
    assert [mail.to for mail in mailoutbox] == [[people.member.email]] * 3
    assert told("accounts.mail_password_link") == 3

    link = next(word for word in mailoutbox[0].body.split() if word.startswith("http"))
    browser, new = Client(), "another quiet harbour"
    form = browser.get(link.removeprefix(settings.BERTH_URL), follow=True)
    browser.post(form.redirect_chain[-1][0], {"password1": new, "password2": new})
    people.member.refresh_from_db()
    assert people.member.check_password(new)


def test_users_of_a_provider_get_no_password_mail(people: People, settings: Any) -> None:
    settings.BERTH_MAIL = True
    people.member.set_unusable_password()
    people.member.save()
    people.member.socialaccount_set.create(provider="harbour", uid="42")
    address = f"{USERS}{people.member.pk}/password-mail/"
    assert api_client(people.domain_admin).post(address).status_code == 409


def test_the_same_on_the_page_of_the_person(people: People, settings: Any) -> None:
    settings.BERTH_MAIL = True
    browser, admin = signed_in(people.member), signed_in(people.domain_admin)
    page = admin.get(f"/people/{people.member.pk}/").content.decode()
    assert "Sign out everywhere" in page
    assert "Mail a link for another password" in page
    answer = admin.post(f"/people/{people.member.pk}/logins/end/", follow=True)
    assert "1 browser is signed out." in answer.content.decode()
    assert browser.get("/profile/").status_code == 302
    for sentence in ["The mail is on its way."] * 3 + ["asked for too often"]:
        answer = admin.post(f"/people/{people.member.pk}/password-mail/", follow=True)
        assert sentence in answer.content.decode()
