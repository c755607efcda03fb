"""Invitations and sign-up, and the pages that create them."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.core import mail
from django.test import Client

from accounts.core.sign_up import SignUp
from accounts.models import Invitation, MailDomain, User
from tests.conftest import People
from tests.factories import PASSWORD, give_app, make_token
from tests.factories_entrance import make_invitation, open_domain

pytestmark = pytest.mark.django_db

BrowserOf = Callable[[User], Client]


def words(answer: Any) -> str:
    return str(answer.content.decode())


def test_a_domain_admin_invites_and_the_person_is_in_the_project(
    people: People, browser_of: BrowserOf
) -> None:
    open_domain(people.domain)
    browser = browser_of(people.domain_admin)
    form = {
        "email": "ada@berth.example",
        "role": "user",
        "days": 7,
        "uses": 1,
        "projects": people.project.name,
    }
    answer = browser.post("/people/invitations/", form)
    assert answer.status_code == 201
    assert answer["Cache-Control"].count("no-store")
    path = answer.context["created"]["url"].partition("8080")[2]
    assert path.startswith("/invitation/")
    assert path not in words(browser.get("/people/invitations/"))

    own = Client()
    page = words(own.get(path))
    assert people.project.name in page
    assert "ada@berth.example" in page
    assert own.post(path, {"password": "short"}).status_code == 422
    assert own.post(path, {}).status_code == 422
    assert own.post(path, {"name": "Ada", "password": PASSWORD})["Location"] == "/"
    assert own.get("/").status_code == 200
    assert list(User.objects.get(email="ada@berth.example").projects.all()) == [people.project]
    assert Client().get(path).status_code == 409
    assert "Used" in words(browser.get("/people/invitations/", {"tab": "over"}))


def test_an_address_that_is_taken_is_marked_at_the_field(people: People) -> None:
    _, code = make_invitation(people.domain, people.domain_admin)
    answer = Client().post(f"/invitation/{code}/", {"email": people.member.email, "password": PASSWORD})
    assert answer.status_code == 422
    assert answer.context["form"].errors["email"]


def test_signed_in_user_is_asked_to_sign_out_first(people: People, browser_of: BrowserOf) -> None:
    _, code = make_invitation(people.domain, people.domain_admin)
    page = words(browser_of(people.member).get(f"/invitation/{code}/"))
    assert "sign out first" in page


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"email": "nowhere"}, "email"),
        ({"role": "superadmin"}, "role"),
        ({"projects": "no-such"}, "projects"),
        ({"days": 0}, "days"),
        ({"uses": 3, "email": "ada@berth.example"}, "uses"),
    ],
)
def test_what_is_wrong_with_an_invitation_is_marked(
    people: People, browser_of: BrowserOf, changes: dict[str, Any], field: str
) -> None:
    open_domain(people.domain)
    form = {"role": "user", "days": 7, "uses": 1, **changes}
    answer = browser_of(people.domain_admin).post("/people/invitations/", form)
    assert answer.status_code == 422
    assert answer.context["form"].errors[field]


def test_an_invitation_is_revoked(people: People, browser_of: BrowserOf) -> None:
    invitation, code = make_invitation(people.domain, people.domain_admin)
    browser = browser_of(people.domain_admin)
    assert "revoked" in words(browser.post(f"/people/invitations/{invitation.pk}/revoke/", follow=True))
    assert "was revoked" in words(Client().get(f"/invitation/{code}/"))
    assert "No invitations" in words(browser.get("/people/invitations/"))
    assert "No invitation matches" in words(browser.get("/people/invitations/", {"q": "nobody"}))


def test_where_nobody_is_taken_the_page_says_who_can_change_that(
    people: People, browser_of: BrowserOf
) -> None:
    assert "A superadmin can allow it" in words(browser_of(people.domain_admin).get("/people/invitations/"))
    assert "on the page of a domain" in words(browser_of(people.superadmin).get("/people/invitations/"))


def test_a_superadmin_opens_a_domain(people: People, browser_of: BrowserOf) -> None:
    browser, url = browser_of(people.superadmin), f"/domains/{people.domain.pk}/sign-up/"
    assert browser.post(url, {"sign_up": "open"}).context["sign_up"].errors["mail_domains"]
    assert browser.post(url, {"sign_up": "wide"}).status_code == 422
    assert (
        browser.post(url, {"sign_up": "open", "mail_domains": "uni.example, @lab.example"}).status_code == 302
    )
    assert MailDomain.objects.count() == 2
    assert "lab.example uni.example" in words(browser.get(f"/domains/{people.domain.pk}/"))


@pytest.mark.usefixtures("empty_redis")
def test_people_sign_up_by_mail_a_few_times_an_hour(
    people: People, settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    settings.BERTH_MAIL = True
    browser = Client()
    assert "Sign-up is closed" in words(browser.get("/sign-up/"))
    open_domain(people.domain, SignUp.OPEN, "uni.example")
    assert "Send the mail" in words(browser.get("/sign-up/"))
    assert "Sign up" in words(browser.get("/account/login/"))
    assert browser.post("/sign-up/", {}).status_code == 422
    refused = browser.post("/sign-up/", {"email": "ada@else.example"})
    assert refused.context["form"].errors["email"]
    with django_capture_on_commit_callbacks(execute=True):
        assert browser.post("/sign-up/", {"email": "ada@uni.example"}).status_code == 202
    path = str(mail.outbox[0].body).partition("8080")[2].split()[0]
    assert browser.post(path, {"password": PASSWORD})["Location"] == "/"
    assert User.objects.get(email="ada@uni.example").domain == people.domain
    assert browser.get("/sign-up/")["Location"] == "/"
    answers = [Client().post("/sign-up/", {"email": "b@uni.example"}).status_code for _ in range(4)]
    assert answers == [202, 202, 202, 429]


def test_a_mail_server_that_is_not_set_up_closes_sign_up(people: People) -> None:
    open_domain(people.domain, SignUp.OPEN, "uni.example")
    assert "Sign-up is closed" in words(Client().get("/sign-up/"))
    assert "/sign-up/" not in words(Client().get("/account/login/"))
    assert not Invitation.objects.exists()


def test_accepted_invitation_leads_to_the_required_second_factor(people: People) -> None:
    people.domain.second_factor = "everybody"
    people.domain.save(update_fields=["second_factor"])
    _invitation, code = make_invitation(people.domain, people.domain_admin)
    browser = Client()
    browser.post(f"/invitation/{code}/", {"email": "new@berth.example", "password": PASSWORD})
    assert browser.get("/sessions/")["Location"] == "/account/2fa/"


@pytest.mark.usefixtures("empty_redis")
def test_a_forgotten_password_is_chosen_anew_by_mail(
    people: People, settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    settings.BERTH_MAIL = True
    browser = Client()
    assert "Forgot your password?" in words(browser.get("/account/login/"))
    with django_capture_on_commit_callbacks(execute=True):
        for email in (people.member.email, "nobody@berth.example"):
            sent = browser.post("/account/password/reset/", {"email": email}, follow=True)
            assert "Look into your mail" in words(sent)
    link = re.search(r"^http\S+$", str(mail.outbox[0].body), re.MULTILINE)
    assert link is not None
    assert link[0].startswith(settings.BERTH_URL)
    assert mail.outbox[0].subject == "Reset your password for Berth"
    assert "has no account" in mail.outbox[1].body

    page = browser.get(link[0].removeprefix(settings.BERTH_URL), follow=True)
    address, chosen = page.context["action_url"], "a quite other phrase 7"
    done = browser.post(address, {"password1": chosen, "password2": chosen}, follow=True)
    assert "Your password is changed" in words(done)
    people.member.refresh_from_db()
    assert people.member.check_password(chosen)
    assert "This link opens nothing" in words(Client().get(link[0].removeprefix(settings.BERTH_URL)))


@pytest.mark.usefixtures("empty_redis")
def test_a_forgotten_password_proves_the_address_and_ends_what_others_left(
    people: People, settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    """Whoever typed the address into an invitation may have kept a token and a factor."""
    settings.BERTH_MAIL = True
    EmailAddress.objects.create(user=people.member, email=people.member.email, verified=False)
    make_token(people.member)
    give_app(people.member)
    assert "New password" in choose_anew(people.member, django_capture_on_commit_callbacks)
    assert EmailAddress.objects.get(user=people.member).verified
    assert not people.member.keypairs.exists()
    assert not people.member.authenticator_set.exists()


@pytest.mark.usefixtures("empty_redis")
def test_user_of_a_provider_chooses_no_password(
    people: People, settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    settings.BERTH_MAIL = True
    people.member.set_unusable_password()
    people.member.save()
    SocialAccount.objects.create(user=people.member, provider="campus", uid="7")
    choose_anew(people.member, django_capture_on_commit_callbacks)
    people.member.refresh_from_db()
    assert not people.member.has_usable_password()
    assert not EmailAddress.objects.exists()


def choose_anew(user: User, capture: Any) -> str:
    """By a mail; the page on which the password is chosen."""
    browser, chosen = Client(), "a quite other phrase 7"
    with capture(execute=True):
        browser.post("/account/password/reset/", {"email": user.email}, follow=True)
    link = re.search(r"^http\S+$", str(mail.outbox[-1].body), re.MULTILINE)
    assert link is not None
    page = browser.get(urlsplit(link[0]).path, follow=True)
    browser.post(page.context["action_url"], {"password1": chosen, "password2": chosen}, follow=True)
    return words(page)


def test_without_mail_nobody_is_promised_any(people: People, django_capture_on_commit_callbacks: Any) -> None:
    browser = Client()
    assert "/password/reset/" not in words(browser.get("/account/login/"))
    assert "No mail is set up here" in words(browser.get("/account/password/reset/"))
    with django_capture_on_commit_callbacks(execute=True):
        sent = browser.post("/account/password/reset/", {"email": people.member.email}, follow=True)
    assert "No mail was sent" in words(sent)
    assert not mail.outbox
