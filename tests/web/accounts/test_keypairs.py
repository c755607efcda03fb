"""The page of one's keypairs, and tokens on the page of a user."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from accounts.logins.service import authenticate_token
from accounts.models import KeyPair, User
from common import clock
from tests.conftest import People
from tests.factories import make_token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]

BrowserOf = Callable[[User], Client]
FORM: dict[str, Any] = {"name": "laptop", "scopes": ["read", "sessions"], "life": "90"}
TOKEN = re.compile(r"bk[a-z2-7]{16}\.[\w-]{43}")


def token_in(page: HttpResponse) -> str:
    found = TOKEN.search(page.content.decode())
    assert found is not None
    return found[0]


def test_a_new_token_is_shown_once_and_works(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.member)
    made = browser.post(reverse("keys"), FORM)
    assert made.status_code == 201
    assert "no-store" in made["Cache-Control"]
    token = token_in(made)
    keypair = authenticate_token(token)
    assert keypair is not None
    assert keypair.scopes == ["read", "sessions"]
    assert keypair.expires_at is not None
    assert timedelta(days=89) < keypair.expires_at - clock.now() < timedelta(days=90)
    later = browser.get(reverse("keys")).content.decode()
    assert "laptop" in later
    assert token.split(".")[1] not in later


def test_a_token_may_be_made_for_ever(people: People, browser_of: BrowserOf) -> None:
    browser_of(people.member).post(reverse("keys"), {**FORM, "life": "never"})
    assert KeyPair.objects.get(user=people.member).expires_at is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x" * 61},
        {"scopes": []},
        {"scopes": ["everything"]},
        {"life": "3"},
        {"life": ""},
    ],
)
def test_a_wrong_form_is_marked_and_kept(
    people: People, browser_of: BrowserOf, wrong: dict[str, Any]
) -> None:
    answer = browser_of(people.member).post(reverse("keys"), {**FORM, **wrong})
    assert answer.status_code == 400
    assert set(answer.context["form"].errors) == set(wrong)
    assert f'value="{ {**FORM, **wrong}["name"] }"' in answer.content.decode() or "name" in wrong
    assert not KeyPair.objects.filter(user=people.member).exists()


def test_the_name_of_a_token_is_text_and_not_markup(people: People, browser_of: BrowserOf) -> None:
    page = browser_of(people.member).post(reverse("keys"), {**FORM, "name": "<script>x</script>"})
    assert "<script>x" not in page.content.decode()


def test_a_token_is_changed_switched_off_and_on(people: People, browser_of: BrowserOf) -> None:
    token, browser = make_token(people.member), browser_of(people.member)
    keypair_id = KeyPair.objects.get(user=people.member).pk
    browser.post(reverse("token", args=[keypair_id]), {"name": "other", "scopes": ["folders"]})
    for to, is_active in (("off", False), ("on", True)):
        browser.post(reverse("token-state", args=[keypair_id]), {"to": to})
        assert (authenticate_token(token) is not None) == is_active
        assert browser.get(reverse("token", args=[keypair_id])).status_code == 200
    row = KeyPair.objects.get(pk=keypair_id)
    assert (row.name, row.scopes) == ("other", ["folders"])
    wrong = browser.post(reverse("token", args=[keypair_id]), {"name": "", "scopes": []})
    assert wrong.status_code == 400


@pytest.mark.parametrize(("hours", "old_works"), [("0", False), ("24", True)])
def test_a_new_secret_is_shown_once(
    people: People, browser_of: BrowserOf, hours: str, old_works: bool
) -> None:
    token, browser = make_token(people.member), browser_of(people.member)
    address = reverse("rotate-token", args=[KeyPair.objects.get(user=people.member).pk])
    assert browser.post(address, {"grace_hours": "7"}).status_code == 400
    made = browser.post(address, {"grace_hours": hours})
    assert made.status_code == 201
    assert authenticate_token(token_in(made)) is not None
    assert (authenticate_token(token) is not None) == old_works


def test_a_token_is_deleted_by_its_owner_alone_who_types_its_name(
    people: People, browser_of: BrowserOf
) -> None:
    make_token(people.member, "laptop")
    address = reverse("delete-token", args=[KeyPair.objects.get(user=people.member).pk])
    browser = browser_of(people.member)
    assert browser_of(people.superadmin).post(address, {"confirm": "laptop"}).status_code == 404
    browser.post(address, {"confirm": "another"})
    assert KeyPair.objects.filter(user=people.member).exists()
    assert browser.post(address, {"confirm": "laptop"})["Location"] == reverse("keys")
    assert not KeyPair.objects.filter(user=people.member).exists()


def test_administrators_see_and_revoke_tokens_on_the_page_of_a_person(
    people: People, browser_of: BrowserOf
) -> None:
    make_token(people.member, "laptop")
    keypair = KeyPair.objects.get(user=people.member)
    page, browser = reverse("person", args=[people.member.pk]), browser_of(people.domain_admin)
    assert keypair.access_key in browser.get(page).content.decode()
    assert keypair.access_key not in browser_of(people.project_admin).get(page).content.decode()
    address = reverse("revoke-token", args=[people.member.pk, keypair.pk])
    assert browser_of(people.project_admin).post(address).status_code == 403
    assert browser.post(address)["Location"] == page
    assert not KeyPair.objects.filter(pk=keypair.pk).exists()
