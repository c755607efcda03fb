"""What one wants of the portal: page and REST."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import User
from portal.models import Notification, NotificationChoice
from portal.selectors import muted_kinds
from portal.sentences import ALWAYS_TOLD, KIND_OF, KIND_TITLES, Code, Kind
from portal.services import notify
from tests.conftest import People
from tests.factories import api_client

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]

BrowserOf = Callable[[User], Client]
PREFERENCES = "/api/v1/me/preferences/"


def tell(user: User, code: Code) -> bool:
    arguments = {"name": "a", "exit_code": 1, "image": "i", "date": "2026-01-01"}
    return notify(person_id=user.pk, code=code, happening=f"h:{code}", arguments=arguments)


def test_every_notification_is_of_a_kind_or_always_told_and_every_kind_has_words() -> None:
    assert set(KIND_OF) == set(Code) - ALWAYS_TOLD
    assert set(KIND_TITLES) == set(Kind)


def test_who_says_nothing_is_told_everything(people: People) -> None:
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
    assert 'value="finished">' in page
    assert 'value="failed" checked>' in page


def test_who_mutes_every_kind_still_hears_of_wrong_passwords(people: People, browser_of: BrowserOf) -> None:
    browser_of(people.member).post(reverse("preferences"), {})
    assert muted_kinds(people.member.pk) == set(Kind)
    assert {code for code in Code if tell(people.member, code)} == ALWAYS_TOLD


def test_programs_read_and_change_preferences(people: People) -> None:
    client = api_client(people.member)
    assert client.get(PREFERENCES).data == {"language": "", "muted_notifications": []}
    changed = client.patch(PREFERENCES, {"language": "ko", "muted_notifications": ["tokens", "finished"]})
    assert changed.data == {"language": "ko", "muted_notifications": ["finished", "tokens"]}
    assert client.patch(PREFERENCES, {"language": ""}).data["muted_notifications"] == ["finished", "tokens"]
    assert muted_kinds(people.member.pk) == {"finished", "tokens"}
    assert muted_kinds(people.outsider.pk) == frozenset()


@pytest.mark.parametrize("wrong", [{"language": "tlh"}, {"muted_notifications": ["all"]}, {"theme": "dark"}])
def test_wrong_preferences_change_nothing(people: People, wrong: dict[str, object]) -> None:
    refused = api_client(people.member).patch(PREFERENCES, {"muted_notifications": ["tokens"], **wrong})
    assert refused.status_code == 400
    assert not NotificationChoice.objects.exists()
