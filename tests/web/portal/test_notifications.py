"""The bell, the page of notifications, and announcements on every page."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from accounts.models import User
from common import clock
from common.pages.status_styles import Tone
from portal.models import Announcement, Notification
from portal.notifications import service
from portal.notifications.catalogue import Code
from tests.conftest import People

pytestmark = pytest.mark.django_db
BrowserOf = Callable[[User], Client]


def tell(user: User, name: str) -> Notification:
    service.notify(person_id=user.pk, code=Code.COMMAND_FINISHED, happening=name, arguments={"name": name})
    return Notification.objects.get(person=user, arguments__name=name)


def text(browser: Client, address: str, **headers: str) -> str:
    return browser.get(address, headers=headers).content.decode()


def test_the_bell_counts_what_is_unread(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.member)
    assert 'aria-label="Notifications"' in text(browser, "/data/")

    tell(people.member, "train")

    assert "Notifications, 1 unread" in text(browser, "/data/")
    assert "Notifications, 1 unread" in text(browser, "/notifications/bell/")
    assert "unread" not in text(browser_of(people.outsider), "/notifications/bell/")


def test_the_page_lists_ones_own_and_what_is_unread(people: People, browser_of: BrowserOf) -> None:
    tell(people.member, "old")
    tell(people.outsider, "foreign")
    browser = browser_of(people.member)
    browser.post("/notifications/read/")
    tell(people.member, "new")

    everything, unread = text(browser, "/notifications/"), text(browser, "/notifications/?show=unread")

    assert "“old” has finished." in everything
    assert "“foreign”" not in everything
    assert "“old”" not in unread
    assert "“new” has finished." in unread
    assert "<html" not in text(browser, "/notifications/", HX_Request="true")


def test_one_is_read_by_its_button(people: People, browser_of: BrowserOf) -> None:
    notification = tell(people.member, "train")

    answer = browser_of(people.member).post(f"/notifications/{notification.pk}/read/", {"back": "/data/"})

    notification.refresh_from_db()
    assert answer["Location"] == "/data/"
    assert notification.read_at is not None


def test_an_empty_page_says_what_will_be_there(people: People, browser_of: BrowserOf) -> None:
    assert "No notifications" in text(browser_of(people.member), "/notifications/")


def test_an_announcement_is_on_every_page_in_its_time(people: People, browser_of: BrowserOf) -> None:
    now, hour = clock.now(), timedelta(hours=1)
    Announcement.objects.create(text="Now and then.", starts_at=now - hour, tone=Tone.WARN)
    Announcement.objects.create(text="Not yet.", starts_at=now + hour)
    Announcement.objects.create(text="Long ago.", starts_at=now - 2 * hour, ends_at=now - hour)

    page = text(browser_of(people.member), "/data/")

    assert "Now and then." in page
    assert "Not yet." not in page
    assert "Long ago." not in page


def test_people_hide_an_announcement_for_themselves_if_they_may(
    people: People, browser_of: BrowserOf
) -> None:
    hides = Announcement.objects.create(text="Can be hidden.")
    stays = Announcement.objects.create(text="Stays.", is_dismissible=False)
    browser = browser_of(people.member)

    answer = browser.post(f"/announcements/{hides.pk}/dismiss/", {"back": "/data/?a=1"})
    browser.post(f"/announcements/{stays.pk}/dismiss/")

    assert answer["Location"] == "/data/?a=1"
    assert "Can be hidden." not in text(browser, "/data/")
    assert "Stays." in text(browser, "/data/")
    assert "Can be hidden." in text(browser_of(people.outsider), "/data/")


def test_an_announcement_ends_after_it_starts() -> None:
    with pytest.raises(ValidationError):
        Announcement(text="Backwards.", ends_at=clock.now() - timedelta(hours=1)).full_clean()
    assert str(Announcement(text="Forwards.")) == "Forwards."


def test_programs_read_what_people_read(people: People, browser_of: BrowserOf) -> None:
    first = tell(people.member, "first")
    tell(people.member, "second")
    browser = browser_of(people.member)

    listed = browser.get("/api/v1/notifications/").json()["results"]
    assert [row["text"] for row in listed] == ["“second” has finished.", "“first” has finished."]
    assert browser.post(f"/api/v1/notifications/{first.pk}/read/").json()["read_at"]
    assert len(browser.get("/api/v1/notifications/?unread=true").json()["results"]) == 1
    assert browser.post("/api/v1/notifications/read/").json() == {"read": 1}
    assert browser.get("/api/v1/notifications/?unread=perhaps").status_code == 400
