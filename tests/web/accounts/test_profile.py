"""Sign-in, the profile page and Django admin, as a browser sees them."""

import re
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from accounts.models import Domain, Membership, User
from accounts.tenancy.service import create_sign_in_link
from common.actors import SYSTEM
from common.models import AuditEntry
from portal.web.menu import SETTINGS
from tests.conftest import People
from tests.factories import PASSWORD

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]

BrowserOf = Callable[[User], Client]


def sign_in(client: Client, email: str, password: str = PASSWORD) -> int:
    """The status of the answer: 302 is success."""
    return client.post(reverse("account_login"), {"login": email, "password": password}).status_code


def is_signed_in(client: Client) -> bool:
    return client.get("/api/v1/me/").status_code == 200


# Sign-in


def test_people_sign_in_with_email_in_any_case_and_password(people: People) -> None:
    browser = Client()
    assert sign_in(browser, people.member.email.upper()) == 302
    assert is_signed_in(browser)


def test_a_wrong_password_and_an_unknown_address_answer_alike(people: People) -> None:
    answers = []
    for email in (people.member.email, "nobody@berth.example"):
        response = Client().post(reverse("account_login"), {"login": email, "password": "wrong"})
        assert response.status_code == 200
        answers.append(response.context["form"].errors)
    assert answers[0] == answers[1]


def test_guessing_a_password_is_throttled_even_for_the_right_one(people: People) -> None:
    for _ in range(5):
        sign_in(Client(), people.member.email, "wrong")
    browser = Client()
    sign_in(browser, people.member.email)
    assert not is_signed_in(browser)
    other = Client()
    assert sign_in(other, people.outsider.email) == 302


def test_the_sign_in_of_django_admin_is_the_throttled_one(people: People) -> None:
    response = Client().post(
        "/admin/login/", {"username": people.superadmin.email, "password": PASSWORD, "next": "/admin/"}
    )
    assert response.status_code == 302
    assert response["Location"].startswith(reverse("account_login"))


def test_sign_up_is_closed(db: None) -> None:
    before = User.objects.count()
    Client().post(
        reverse("account_signup"), {"email": "x@berth.example", "password1": PASSWORD, "password2": PASSWORD}
    )
    assert User.objects.count() == before


@pytest.mark.parametrize("what", ["account", "domain"])
def test_closed_accounts_and_domains_let_nobody_in(people: People, what: str) -> None:
    if what == "account":
        User.objects.filter(pk=people.member.pk).update(is_active=False)
    else:
        Domain.objects.filter(pk=people.domain.pk).update(is_active=False)
    browser = Client()
    response = browser.post(
        reverse("account_login"), {"login": people.member.email, "password": PASSWORD}, follow=True
    )
    assert not is_signed_in(browser)
    assert response.redirect_chain[-1][0] == reverse("account_inactive")


def test_people_cannot_change_the_address_that_names_them(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.member)
    browser.post("/account/email/", {"action_add": "", "email": "boss@berth.example"})
    people.member.refresh_from_db()
    assert people.member.email != "boss@berth.example"
    assert browser.get("/account/email/")["Location"] == reverse("profile")


# One-time links


def link_for(user: User) -> str:
    return reverse("sign-in-once", args=[create_sign_in_link(actor=SYSTEM, user=user)])


def test_looking_at_a_one_time_link_does_not_use_it_up(people: People) -> None:
    link = link_for(people.superadmin)
    for _ in range(3):
        assert Client().get(link).status_code == 200
        assert Client().head(link).status_code == 200
    browser = Client()
    assert browser.post(link).status_code == 302
    assert is_signed_in(browser)
    assert Client().post(link).status_code == 404


def test_a_one_time_link_needs_the_csrf_token_of_its_page(people: People) -> None:
    link, browser = link_for(people.member), Client(enforce_csrf_checks=True)
    assert browser.post(link).status_code == 403
    page = browser.get(link).content.decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert token
    assert browser.post(link, {"csrfmiddlewaretoken": token[1]}).status_code == 302


@pytest.mark.parametrize(
    ("next_url", "goes_to"),
    [
        ("/sessions/", "/sessions/"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_a_one_time_link_leads_to_places_of_ours_alone(people: People, next_url: str, goes_to: str) -> None:
    response = Client().post(link_for(people.member), query_params={"next": next_url})
    assert response["Location"] == goes_to


def test_a_one_time_link_is_never_cached_and_leaves_no_trace_elsewhere(people: People) -> None:
    response = Client().get(link_for(people.member))
    assert "no-store" in response["Cache-Control"]
    assert response["Referrer-Policy"] == "same-origin"


def test_the_command_prints_a_link_for_the_first_superadmin(
    people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("sign_in_link")
    url = capsys.readouterr().out.strip()
    assert url.startswith("http://localhost:8080/sign-in/once/")
    browser = Client()
    browser.post(url.removeprefix("http://localhost:8080"))
    assert browser.get("/api/v1/me/").json()["email"] == people.superadmin.email


def test_the_command_refuses_an_unknown_address(db: None) -> None:
    with pytest.raises(CommandError):
        call_command("sign_in_link", email="nobody@berth.example")


# The profile


def test_the_profile_says_who_one_is(people: People, browser_of: BrowserOf) -> None:
    page = browser_of(people.project_admin).get(reverse("profile")).content.decode()
    for text in (people.project_admin.email, str(people.domain), str(people.project), "Project admin"):
        assert text in page


# Django admin


def test_an_account_is_made_and_changed_in_django_admin(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.superadmin)
    form = {
        "email": "New.Person@berth.example",
        "name": "New",
        "domain": people.domain.pk,
        "role": "user",
        "password1": PASSWORD,
        "password2": PASSWORD,
    }
    assert browser.post("/admin/accounts/user/add/", form).status_code == 302
    person = User.objects.get(email="new.person@berth.example")
    assert person.check_password(PASSWORD)
    assert person.must_change_password
    assert PASSWORD not in person.password

    url = f"/admin/accounts/user/{person.pk}/change/"
    changes = {key: form[key] for key in ("email", "name", "domain")} | {
        "role": "domain_admin",
        "is_active": "on",
    }
    assert browser.post(url, changes).status_code == 302
    person = User.objects.get(pk=person.pk)
    assert person.has_perm("accounts.manage_domain", people.domain)
    assert AuditEntry.objects.filter(action="accounts.update_user", actor_id=people.superadmin.pk).exists()


def test_a_password_is_changed_in_django_admin_and_ends_logins(people: People, browser_of: BrowserOf) -> None:
    theirs = browser_of(people.member)
    url = f"/admin/accounts/user/{people.member.pk}/password/"
    new = "a stormy harbour"
    response = browser_of(people.superadmin).post(
        url, {"password1": new, "password2": new, "usable_password": "true"}
    )
    assert response.status_code == 302
    assert not is_signed_in(theirs)
    assert sign_in(Client(), people.member.email, new) == 302


def test_a_taken_address_in_django_admin_is_marked_at_the_field(
    people: People, browser_of: BrowserOf
) -> None:
    form = {
        "email": people.member.email.upper(),
        "domain": people.domain.pk,
        "role": "user",
        "password1": PASSWORD,
        "password2": PASSWORD,
    }
    response = browser_of(people.superadmin).post("/admin/accounts/user/add/", form)
    assert response.status_code == 200
    assert "email" in response.context["adminform"].form.errors


def test_a_superadmin_cannot_step_down_in_django_admin(people: People, browser_of: BrowserOf) -> None:
    url = f"/admin/accounts/user/{people.superadmin.pk}/change/"
    form = {"email": people.superadmin.email, "domain": people.domain.pk, "role": "user", "is_active": "on"}
    assert browser_of(people.superadmin).post(url, form).status_code == 409
    people.superadmin.refresh_from_db()
    assert people.superadmin.role == "superadmin"


def test_members_are_managed_in_django_admin_within_the_domain(people: People, browser_of: BrowserOf) -> None:
    browser, project = browser_of(people.superadmin), people.project
    url = f"/admin/accounts/project/{project.pk}/change/"

    def form(user: User) -> dict[str, object]:
        return {
            "name": project.name,
            "title": "",
            "is_active": "on",
            "memberships-TOTAL_FORMS": 1,
            "memberships-INITIAL_FORMS": 0,
            "memberships-0-user": user.pk,
            "memberships-0-project": project.pk,
            "memberships-0-role": "admin",
        }

    assert browser.post(url, form(people.outsider)).status_code == 302
    assert User.objects.get(pk=people.outsider.pk).has_perm("accounts.manage_project", project)
    refused = browser.post(url, form(people.stranger))
    assert refused.status_code == 200
    assert "another domain" in refused.content.decode()
    assert not Membership.objects.filter(user=people.stranger).exists()


def test_settings_are_one_tab_away_from_each_other(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.member)
    for address, title in (("/profile/", "Profile"), ("/profile/activity/", "Activity")):
        page = browser.get(address).content.decode()
        tabs = page.partition('<nav class="tabs" aria-label="Settings">')[2].partition("</nav>")[0]
        assert tabs.count("<a ") == len(SETTINGS)
        current = tabs.partition('aria-current="page"')[2].partition("</a>")[0]
        assert title in current
