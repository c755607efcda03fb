"""Preferences on the page and over REST."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.test import Client
from django.urls import reverse

from accounts.models import User
from portal.models import Notification, NotificationChoice
from portal.notifications.catalogue import KIND_BY_CODE, KIND_TITLES, MUTABLE, UNMUTABLE, Code, Kind
from portal.notifications.selectors import notification_choice
from portal.notifications.service import notify
from tests.conftest import People
from tests.factories import api_client

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]

BrowserOf = Callable[[User], Client]
PREFERENCES = "/api/v1/me/preferences/"


def tell(user: User, code: Code) -> bool:
    arguments = {"name": "a", "exit_code": 1, "image": "i", "date": "2026-01-01"}
    return notify(person_id=user.pk, code=code, happening=f"h:{code}", arguments=arguments)


def is_checked(page: str, name: str, code: str) -> bool:
    [box] = re.findall(rf'<input[^>]*name="{name}" value="{code}"[^>]*>', page)
    return " checked" in box


def test_every_notification_is_of_a_kind_and_every_kind_has_words() -> None:
    assert set(KIND_BY_CODE) == set(Code)
    assert set(MUTABLE) == set(Kind) - UNMUTABLE
    assert set(KIND_TITLES) == set(Kind)


def test_all_notifications_are_on_by_default(people: People) -> None:
    assert all(tell(people.member, code) for code in Code)


def test_what_is_muted_is_not_told_and_nobody_elses_concern(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.member)
    told = [kind.value for kind in Kind if kind is not Kind.FINISHED]
    assert browser.post(reverse("preferences"), {"kind": told}).status_code == 302
    assert not tell(people.member, Code.COMMAND_FINISHED)
    assert tell(people.member, Code.COMMAND_FAILED)
    assert tell(people.outsider, Code.COMMAND_FINISHED)
    assert Notification.objects.filter(person=people.member).count() == 1
    page = browser.get(reverse("preferences")).content.decode()
    assert is_checked(page, "kind", "failed")
    assert not is_checked(page, "kind", "finished")


def test_who_mutes_every_kind_still_hears_of_wrong_passwords(people: People, browser_of: BrowserOf) -> None:
    browser_of(people.member).post(reverse("preferences"), {})
    assert set(notification_choice(people.member.pk).muted) == set(MUTABLE)
    assert {KIND_BY_CODE[code] for code in Code if tell(people.member, code)} == UNMUTABLE


def test_programs_read_and_change_preferences(people: People) -> None:
    client = api_client(people.member)
    assert client.get(PREFERENCES).data == {
        "language": "",
        "muted_notifications": [],
        "mailed_notifications": [],
        "no_mail_because": "No mail is set up here, so none can be sent.",
    }
    changed = client.patch(PREFERENCES, {"language": "ko", "muted_notifications": ["tokens", "finished"]})
    assert (changed.data["language"], changed.data["muted_notifications"]) == ("ko", ["finished", "tokens"])
    assert client.patch(PREFERENCES, {"language": ""}).data["muted_notifications"] == ["finished", "tokens"]
    assert notification_choice(people.member.pk).muted == ["finished", "tokens"]
    assert notification_choice(people.outsider.pk).muted == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"language": "tlh"},
        {"muted_notifications": ["all"]},
        {"muted_notifications": ["safety"]},
        {"mailed_notifications": ["failed"]},
        {"theme": "dark"},
    ],
)
def test_wrong_preferences_change_nothing(people: People, wrong: dict[str, object]) -> None:
    refused = api_client(people.member).patch(PREFERENCES, {"muted_notifications": ["tokens"], **wrong})
    assert refused.status_code == 400
    assert not NotificationChoice.objects.exists()


def test_people_choose_what_is_mailed_where_mail_is_set_up(
    people: People, browser_of: BrowserOf, settings: Any
) -> None:
    settings.BERTH_MAIL = True
    browser, client = browser_of(people.member), api_client(people.member)
    browser.post(reverse("preferences"), {"kind": ["failed"], "mail": ["safety", "failed"]})
    page = browser.get(reverse("preferences")).content.decode()
    assert is_checked(page, "mail", "failed")
    assert is_checked(page, "mail", "safety")
    assert not is_checked(page, "mail", "finished")
    assert people.member.email in page
    assert client.get(PREFERENCES).data["mailed_notifications"] == ["failed", "safety"]
    assert client.patch(PREFERENCES, {"mailed_notifications": ["budgets"]}).data["no_mail_because"] == ""
    browser.post(reverse("preferences"), {"mail": ["nonsense"]})
    assert notification_choice(people.member.pk).mailed == ["budgets"]

    settings.BERTH_MAIL = False
    assert "No mail is set up here" in browser.get(reverse("preferences")).content.decode()
    browser.post(reverse("preferences"), {"kind": ["failed"], "mail": ["failed"]})
    assert notification_choice(people.member.pk).mailed == ["budgets"]
    assert client.patch(PREFERENCES, {"mailed_notifications": []}).data["mailed_notifications"] == []


def test_nothing_is_mailed_to_an_address_that_nobody_proved(
    people: People, browser_of: BrowserOf, settings: Any
) -> None:
    settings.BERTH_MAIL = True
    EmailAddress.objects.create(user=people.member, email=people.member.email, verified=False)
    assert "Nobody has shown" in browser_of(people.member).get(reverse("preferences")).content.decode()
    refused = api_client(people.member).patch(PREFERENCES, {"mailed_notifications": ["failed"]})
    assert refused.status_code == 400
