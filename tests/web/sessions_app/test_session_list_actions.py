"""The list of sessions: export and bulk stop."""

import csv
import io
from collections.abc import Callable
from uuid import uuid4

import pytest
from django.test import Client

from accounts.models import User
from sessions_app.models import ComputeSession
from tests.factories import make_user
from tests.factories_sessions import Place

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]
BrowserOf = Callable[[User], Client]


@pytest.fixture
def browser(place: Place, browser_of: BrowserOf) -> Client:
    return browser_of(place.owner)


def text_of(browser: Client, query: str = "") -> str:
    answer = browser.get(f"/sessions/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def lines_of(browser: Client, query: str = "") -> list[dict[str, str]]:
    answer = browser.get(f"/sessions/export/{query}")
    assert answer["Content-Disposition"] == 'attachment; filename="sessions.csv"'
    return list(csv.DictReader(io.StringIO(b"".join(answer).decode())))


# Export


def test_the_export_has_what_the_list_shows_on_all_its_pages(
    place: Place, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("common.db.pagination.ROWS_PER_PAGE", 1)
    monkeypatch.setattr("common.pages.csv_export.ROWS_AT_ONCE", 2)
    sessions = {name: place.run(name=name) for name in ("x-2", "y", "x-1", "x-3")}
    place.end(sessions["x-3"])

    lines = lines_of(browser, "?q=x&sort=name")

    assert [line["name"] for line in lines] == ["x-1", "x-2"]
    assert lines[0]["id"] == str(sessions["x-1"].pk)
    assert lines[0]["machines"] == place.agent.name
    assert (lines[0]["cores"], lines[0]["memory bytes"], lines[0]["ended"]) == ("1.0", str(2**30), "")
    assert [line["name"] for line in lines_of(browser, "?tab=ended")] == ["x-3"]


def test_nobody_exports_what_they_do_not_see(place: Place, browser_of: BrowserOf) -> None:
    place.run()

    assert lines_of(browser_of(make_user(member_of=place.project))) == []


# Many at once


def test_many_are_stopped_in_ten_seconds_unless_somebody_takes_it_back(place: Place, browser: Client) -> None:
    running, waiting = place.run(name="a"), place.enqueue(name="b")
    chosen = [str(session.pk) for session in (running, waiting)]

    stopped = browser.post("/sessions/stop/", {"session": chosen, "back": "q=a"}, follow=True)

    assert stopped.redirect_chain == [("/sessions/?q=a", 302)]
    page = stopped.content.decode()
    assert "2 sessions are being stopped." in page
    assert 'action="/sessions/keep/"' in page
    assert all(f'<input type="hidden" name="session" value="{each}">' in page for each in chosen)
    assert all(place.fresh(session).stops_at for session in (running, waiting))

    kept = browser.post("/sessions/keep/", {"session": chosen, "back": "q=a"}, follow=True)

    assert kept.redirect_chain == [("/sessions/?q=a", 302)]
    assert "2 sessions go on." in kept.content.decode()
    assert not any(place.fresh(session).stops_at for session in (running, waiting))


def test_a_refusal_among_many_is_told_and_stops_none_of_the_others(place: Place, browser: Client) -> None:
    ended, running = place.end(place.run(name="c")), place.run(name="a")
    chosen = [str(session.pk) for session in (running, ended)] + [str(uuid4())]

    told = browser.post("/sessions/stop/", {"session": chosen}).content.decode()

    assert "2 of 3 done" in told
    for sentence in (
        "It will be stopped in a moment.",
        "Had ended before.",
        "no such session among yours",
        "1 session is being stopped.",
    ):
        assert sentence in told
    assert place.fresh(running).stops_at
    late = browser.post("/sessions/keep/", {"session": chosen[:2]}).content.decode()
    assert "1 of 2 done" in late
    assert "too late" in late


def test_nobody_stops_sessions_of_others_among_many(place: Place, browser_of: BrowserOf) -> None:
    session = place.run(name="theirs")
    browser = browser_of(make_user(member_of=place.project))

    page = browser.post("/sessions/stop/", {"session": str(session.pk)}).content.decode()

    assert "0 of 1 done" in page
    assert "theirs" not in page
    assert place.fresh(session).stops_at is None


def test_odd_choices_are_said(place: Place, browser: Client) -> None:
    many = [str(uuid4()) for _ in range(201)]
    none = browser.post("/sessions/stop/", {"back": "tab=live"}, follow=True)

    assert none.redirect_chain == [("/sessions/?tab=live", 302)]
    assert "Choose the sessions first" in none.content.decode()
    assert browser.post("/sessions/stop/", {"session": "x"}).status_code == 400
    assert browser.post("/sessions/stop/", {"session": many}).status_code == 400
    assert ComputeSession.objects.count() == 0


def test_only_what_can_be_stopped_can_be_ticked(place: Place, browser: Client) -> None:
    live, ended = place.run(name="live"), place.end(place.run(name="ended"))

    assert f'form="stop-many" name="session" value="{live.pk}"' in text_of(browser)
    assert str(ended.pk) in text_of(browser, "?tab=ended")
    assert "stop-many" not in text_of(browser, "?tab=ended")
