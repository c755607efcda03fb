"""Texts of django-allauth are replaced by Berth's, in each language."""

from typing import Any

import pytest
from allauth.account.adapter import get_adapter
from allauth.mfa.models import Authenticator
from django.test import Client
from django.utils.translation import override

from tests.conftest import People
from tests.factories import PASSWORD, give_app
from tests.web.accounts.test_second_factor import browser_of

pytestmark = pytest.mark.django_db
# Of its catalogues; our own has none of these.
ITS_WORDS = (
    "Email address",
    "Remember Me",
    "Current Password",
    "New Password (again)",
    "Authenticator code",
    "Use your password",
)


def words(answer: Any) -> str:
    return str(answer.content.decode())


def test_sign_in_forms_have_our_labels(people: People, settings: Any) -> None:
    settings.BERTH_MAIL = True
    inside = browser_of(people.member)
    pages = [
        *(words(Client().get(path)) for path in ("/account/login/", "/account/password/reset/")),
        *(words(inside.get(path)) for path in ("/account/password/change/", "/account/2fa/totp/activate/")),
        words(inside.get("/account/reauthenticate/")),
    ]
    for page in pages:
        assert not [its for its in ITS_WORDS if its in page]
    assert "E-mail" in pages[0]
    assert "New password, once more" in pages[2]


def test_sign_in_errors_have_our_texts(people: People) -> None:
    wrong = Client().post("/account/login/", {"login": people.member.email, "password": "wrong"})
    assert "E-mail address or password is not right." in words(wrong)
    inside = browser_of(people.member)
    asked = {"oldpassword": "wrong", "password1": "a quiet harbour", "password2": "another harbour"}
    answer = words(inside.post("/account/password/change/", asked))
    assert "This is not your current password." in answer
    assert "This is not the same password as above." in answer
    wrong = inside.post("/account/reauthenticate/", {"password": "wrong"})
    assert "This is not your password." in words(wrong)


def test_what_was_done_is_said_in_our_words(people: People) -> None:
    browser, new = browser_of(people.member), "another quiet harbour"
    asked = {"oldpassword": PASSWORD, "password1": new, "password2": new}
    assert "Your password is changed." in words(browser.post("/account/password/change/", asked, follow=True))
    assert "You are signed out." in words(browser.post("/account/logout/", follow=True))


def test_other_ways_to_show_that_it_is_oneself_have_our_words(people: People) -> None:
    give_app(people.member)
    Authenticator.objects.create(user=people.member, type="webauthn", data={})
    with override("en"):
        ways = get_adapter().get_reauthentication_methods(people.member)
    assert [way["description"] for way in ways] == [
        "By your password",
        "By a code of your authenticator app, or a recovery code",
        "By a passkey",
    ]
