"""Pages of sessions: list, detail, stop, start again, log."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from common import clock
from common.actors import SYSTEM
from common.db import pagination
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession, Kernel
from sessions_app.termination.delayed_stop import UNDO_S, run_due_stops
from sessions_app.termination.service import terminate_session
from tests.factories import actor_for, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
BrowserOf = Callable[[User], Client]
FRAGMENT = {"HX-Request": "true"}


@pytest.fixture
def browser(place: Place, browser_of: BrowserOf) -> Client:
    return browser_of(place.owner)


def text_of(browser: Client, address: str, **more: Any) -> str:
    answer = browser.get(address, **more)
    assert answer.status_code == 200
    return answer.content.decode()


def page_of(session: ComputeSession, part: str = "") -> str:
    return f"/sessions/{session.pk}/{part}"


def states_of(page: str) -> list[str]:
    """States of the steps of the timeline, in order."""
    return re.findall(r'<li class="is-(\w+)"', page)


# The list


def test_without_sessions_the_list_says_what_to_do(browser: Client) -> None:
    assert "Nothing is running" in text_of(browser, "/sessions/")
    assert 'href="/sessions/new/"' in text_of(browser, "/sessions/")
    assert "Nothing has ended yet" in text_of(browser, "/sessions/?tab=ended")
    assert "No session matches" in text_of(browser, "/sessions/?q=absent")


def test_tabs_part_live_from_ended_sessions_and_count_them(place: Place, browser: Client) -> None:
    place.end(place.run(name="yesterday"))
    place.run(name="today")
    place.enqueue(name="tomorrow")

    live, ended = text_of(browser, "/sessions/"), text_of(browser, "/sessions/?tab=ended")

    assert [name in live for name in ("today", "tomorrow", "yesterday")] == [True, True, False]
    assert [name in ended for name in ("today", "tomorrow", "yesterday")] == [False, False, True]
    assert re.findall(r'class="count" [^>]*>(\d+)<', live) == ["2", "1"]
    assert re.search(r'tab=ended" aria-current="page"', ended)


def test_search_looks_at_names(place: Place, browser: Client) -> None:
    place.enqueue(name="train-a")
    place.enqueue(name="other")

    found = text_of(browser, "/sessions/?q=TRAIN")

    assert "train-a" in found
    assert ">other<" not in found
    assert 'value="TRAIN"' in found


@pytest.mark.parametrize(
    "query", ["tab=x&page=x&q=%01", "q=%25&page=-1", "q=<script>alert(1)</script>", "page=99"]
)
def test_any_query_string_gets_a_list(place: Place, browser: Client, query: str) -> None:
    place.enqueue()

    assert "<script>alert" not in text_of(browser, f"/sessions/?{query}")


def test_a_long_list_has_pages_that_keep_the_search(
    place: Place, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "ROWS_PER_PAGE", 2)
    names = [place.enqueue(name=f"train-{number}").name for number in range(3)]

    first, second = text_of(browser, "/sessions/?q=train"), text_of(browser, "/sessions/?q=train&page=2")

    assert "1–2 of 3 sessions" in first
    assert 'rel="next" href="?q=train&amp;page=2"' in first
    assert [name in second for name in names] == [True, False, False]


def test_htmx_gets_the_fragment_and_a_boosted_link_the_page(place: Place, browser: Client) -> None:
    session = place.run()
    for address in ("/sessions/", page_of(session)):
        fragment = browser.get(address, headers=FRAGMENT)
        boosted = browser.get(address, headers={**FRAGMENT, "HX-Boosted": "true"})

        assert "<html" not in fragment.content.decode()
        assert str(session.pk) in fragment.content.decode()
        assert "<html" in boosted.content.decode()
        assert "HX-Request" in boosted["Vary"]


def test_the_list_takes_a_constant_number_of_queries(
    place: Place, browser: Client, django_assert_num_queries: Any
) -> None:
    for expected_rows in (1, 4):
        while ComputeSession.objects.count() < expected_rows:
            place.run()
        with django_assert_num_queries(12):
            assert text_of(browser, "/sessions/").count('data-label="Name"') == expected_rows


# One session


def test_the_page_of_a_running_session_opens_apps_and_a_terminal(place: Place, browser: Client) -> None:
    session = place.run(name="train")

    page = text_of(browser, page_of(session))

    assert "<h1>train</h1>" in page
    assert f'href="http://jupyter-{session.host_label}.apps.localhost:8080/"' in page
    assert "Open JupyterLab" in page
    assert 'href="?tab=terminal"' in page
    assert page_of(session, "stop/") in page
    assert page_of(session, "start-again/") not in page
    assert place.agent.name in page
    assert states_of(page) == ["past"] * 5


def carry(session: ComputeSession, *path: Status) -> None:
    reasons = {Status.CANCELLED: Reason.USER_REQUESTED, Status.TERMINATING: Reason.IMAGE_MISSING}
    for status in path:
        if status is Status.ERROR and session.status == Status.TERMINATING:
            transitions.finish(session.pk, actor=SYSTEM)
        else:
            transitions.transition(
                session.pk, to=status, reason=reasons.get(status, Reason.PLACED), actor=SYSTEM
            )
        session.refresh_from_db()


AHEAD = "ahead"


@pytest.mark.parametrize(
    ("path", "states"),
    [
        ((), ["now", AHEAD, AHEAD, AHEAD, AHEAD]),
        ((Status.SCHEDULED,), ["past", "now", AHEAD, AHEAD, AHEAD]),
        ((Status.SCHEDULED, Status.PREPARING), ["past", "past", "now", AHEAD, AHEAD]),
        ((Status.SCHEDULED, Status.PREPARING, Status.STARTING), ["past", "past", "past", "now", AHEAD]),
        ((Status.SCHEDULED, Status.PREPARING, Status.STARTING, Status.RUNNING), ["past"] * 5),
        ((Status.CANCELLED,), ["failed", AHEAD, AHEAD, AHEAD, AHEAD]),
        (
            (Status.SCHEDULED, Status.PREPARING, Status.TERMINATING),
            ["past", "past", "failed", AHEAD, AHEAD],
        ),
        (
            (Status.SCHEDULED, Status.PREPARING, Status.TERMINATING, Status.ERROR),
            ["past", "past", "failed", AHEAD, AHEAD],
        ),
    ],
)
def test_the_timeline_shows_how_far_it_came(
    place: Place, browser: Client, path: tuple[Status, ...], states: list[str]
) -> None:
    session = place.enqueue()
    carry(session, *path)

    page = text_of(browser, page_of(session))

    assert states_of(page) == states
    assert session.status == Status.RUNNING or str(session.status_message) in page


def test_the_history_names_each_change_newest_first_and_who_did_it(place: Place, browser: Client) -> None:
    session = place.end(place.run())

    page = text_of(browser, page_of(session, "?tab=history")).partition('<ol class="history">')[2]

    words = ["Stopped by its owner", "The containers are being started", "A machine with room", "Waiting for"]
    places = [page.find(word) for word in words]
    assert -1 not in places
    assert places == sorted(places)
    assert f"by {place.owner.email}" in page
    assert "by system" not in page


def test_an_ended_session_can_be_started_again_and_shows_its_exit_code(place: Place, browser: Client) -> None:
    session = place.run(type="batch", command="exit 3", timeout_s=90)
    transitions.transition(
        session.pk, to=Status.TERMINATING, reason=Reason.COMMAND_FAILED, actor=SYSTEM, exit_code=3
    )
    transitions.finish(session.pk, actor=SYSTEM)

    page = text_of(browser, page_of(session))

    assert page_of(session, "start-again/") in page
    assert page_of(session, "stop/") not in page
    assert "Exit code 3" in page
    assert "exit 3" in page
    assert "1 min 30 s" in page
    assert "The log says why" in page


def test_an_admin_sees_and_stops_but_is_not_inside(place: Place, browser_of: BrowserOf) -> None:
    session = place.run()
    admin = browser_of(make_user(admin_of=place.project))

    page, rows = text_of(admin, page_of(session)), text_of(admin, "/sessions/")

    assert 'href="?tab=terminal"' not in page
    for shown in (page, rows):
        assert ".apps.localhost" not in shown
        assert page_of(session, "terminal/") not in shown
        assert page_of(session, "start-again/") not in shown
        assert page_of(session, "stop/") in shown
        assert place.owner.email in shown
    assert admin.get(page_of(session, "terminal/")).status_code == 403
    assert admin.post(page_of(session, "start-again/")).status_code == 403
    assert admin.post(page_of(session, "stop/")).status_code == 302
    with clock.frozen_at(clock.now() + timedelta(seconds=UNDO_S)):
        run_due_stops()
    assert place.fresh(session).status_reason == Reason.ADMIN_REQUESTED


def test_each_tab_takes_a_constant_number_of_queries(
    place: Place, browser: Client, django_assert_num_queries: Any
) -> None:
    running, ended = place.run(), place.end(place.run())
    with CaptureQueriesContext(connection) as of_the_frame:
        text_of(browser, page_of(running, "?tab=folders"))
    # The way so far, and others that it comes after; nothing; nothing; the last sample; the changes.
    for tab, further in (("overview", 2), ("terminal", 0), ("log", 0), ("charts", 1), ("history", 1)):
        for session in (running, ended):
            with django_assert_num_queries(len(of_the_frame) + further):
                text_of(browser, page_of(session, f"?tab={tab}"))


def test_the_terminal_needs_a_running_session(place: Place, browser: Client) -> None:
    waiting, running = place.enqueue(), place.run()

    assert "The session does not run" in text_of(browser, page_of(waiting, "terminal/"))
    assert f"/ws/sessions/{running.pk}/terminal/" in text_of(browser, page_of(running, "terminal/"))


def test_the_log_is_a_download(place: Place, browser: Client) -> None:
    session = place.run(name="train")
    container = Kernel.objects.get(session=session).container_name
    place.runtime.finish(container, output=b"<b>hi</b>\n")

    answer = browser.get(page_of(session, "log/"))

    assert answer.content == b"<b>hi</b>\n"
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="train.log"'


# What its buttons do


def test_stopping_goes_back_to_where_the_button_was_and_offers_a_way_back(
    place: Place, browser: Client
) -> None:
    first, second = place.run(name="first"), place.enqueue(name="second")

    assert browser.post(page_of(first, "stop/"))["Location"] == page_of(first)
    back = browser.post(page_of(second, "stop/"), {"back": "list"}, follow=True)

    shown = back.content.decode()
    assert back.redirect_chain == [("/sessions/", 302)]
    assert "“second” is being stopped." in shown
    assert f'action="{page_of(second, "keep/")}"' in shown
    assert place.fresh(first).status == Status.RUNNING
    page = text_of(browser, page_of(first))
    assert "It will be stopped in" in page
    assert page_of(first, "keep/") in page
    assert page_of(first, "stop/") not in page

    kept = browser.post(page_of(second, "keep/"), {"back": "list"}, follow=True)
    assert "“second” goes on." in kept.content.decode()
    with clock.frozen_at(clock.now() + timedelta(seconds=UNDO_S)):
        run_due_stops()
    assert place.fresh(first).status == Status.TERMINATING
    assert place.fresh(second).status == Status.PENDING
    late = browser.post(page_of(first, "keep/"), follow=True)
    assert late.redirect_chain == [(page_of(first), 302)]
    assert "It is too late to keep “first”" in late.content.decode()
    assert browser.post(page_of(first, "stop/"))["Location"] == page_of(first)


def test_starting_again_asks_for_the_same_under_the_next_name(place: Place, browser: Client) -> None:
    asked = {
        "type": "batch",
        "command": "ls",
        "timeout_s": 60,
        "environment": {"A": "1"},
        "resources": {"cpu": 0.5, "mem": "300m", "shm": "32m"},
    }
    earlier = place.enqueue(name="nightly-7", **asked)
    terminate_session(actor=actor_for(place.owner), session_id=earlier.pk)

    answer = browser.post(page_of(earlier, "start-again/"))

    again = ComputeSession.objects.live().get()
    assert answer["Location"] == page_of(again)
    assert again.name == "nightly-1"
    same = ("type", "command", "timeout_s", "environment", "requested_slots", "shm_bytes", "image", "project")
    assert [getattr(again, name) for name in same] == [getattr(earlier, name) for name in same]


def test_what_changes_something_is_a_post(place: Place, browser: Client) -> None:
    session = place.run()
    for part in ("stop/", "start-again/"):
        assert browser.get(page_of(session, part)).status_code == 405
    assert place.fresh(session).status == Status.RUNNING


def test_a_form_without_its_token_does_nothing(place: Place) -> None:
    session = place.run()
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(place.owner, backend="accounts.sign_in.auth_backends.SignInBackend")

    assert careful.post(page_of(session, "stop/")).status_code == 403
    assert place.fresh(session).status == Status.RUNNING
