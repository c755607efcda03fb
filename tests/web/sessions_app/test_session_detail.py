"""The page of one session: tabs, and help after an error."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from accounts.models import User
from common.actors import SYSTEM
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.metrics import collector
from sessions_app.models import ComputeSession, Kernel
from sessions_app.presentation import session as presentation_session
from sessions_app.reconciler import loop
from tests.factories import make_user
from tests.factories_sessions import Place

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]
BrowserOf = Callable[[User], Client]
TABS = ("overview", "terminal", "log", "charts", "folders", "history")


@pytest.fixture
def browser(place: Place, browser_of: BrowserOf) -> Client:
    return browser_of(place.owner)


def tab_of(browser: Client, session: ComputeSession, tab: str, **more: Any) -> str:
    answer = browser.get(f"/sessions/{session.pk}/?tab={tab}", **more)
    assert answer.status_code == 200
    return answer.content.decode()


def fail(place: Place, reason: Reason, **asked: Any) -> ComputeSession:
    """A session that ended for this reason."""
    session = place.run(**asked)
    transitions.transition(session.pk, to=Status.TERMINATING, reason=reason, actor=SYSTEM)
    transitions.finish(session.pk, actor=SYSTEM)
    return place.fresh(session)


def launcher_link(session: ComputeSession, **changes: str) -> str:
    query = presentation_session.launcher_query(session, changes)
    return f'href="/sessions/new/?{escape(query)}"'


def test_each_tab_is_an_address_and_marks_itself(place: Place, browser: Client) -> None:
    session = place.run()
    for tab in TABS:
        page = tab_of(browser, session, tab)
        assert f'href="?tab={tab}" aria-current="page"' in page
        assert all(f'href="?tab={other}"' in page for other in TABS)
    assert 'href="?tab=overview" aria-current="page"' in tab_of(browser, session, "elsewhere")


def test_a_tab_that_goes_on_by_itself_is_not_fetched_again(place: Place, browser: Client) -> None:
    session = place.run()
    for tab, is_fetched in (
        ("overview", True),
        ("history", True),
        ("folders", True),
        ("terminal", False),
        ("log", False),
    ):
        fragment = tab_of(browser, session, tab, headers={"HX-Request": "true"})
        assert ("hx-swap-oob" in fragment) is is_fetched


def test_scripts_of_a_tab_are_loaded_by_it_alone(place: Place, browser: Client) -> None:
    session = place.run()
    for tab, script in (("charts", "charts.js"), ("log", "logs.js"), ("terminal", "terminal.js")):
        assert f"berth/{script}" in tab_of(browser, session, tab)
        assert not any(f"berth/{script}" in tab_of(browser, session, other) for other in TABS if other != tab)
    batch = place.run(type="batch", command="true")
    assert "berth/logs.js" in tab_of(browser, batch, "overview")


def test_the_terminal_is_in_the_page_of_a_running_session_and_of_its_owner(
    place: Place, browser: Client, browser_of: BrowserOf
) -> None:
    running, waiting, ended = place.run(), place.enqueue(), place.end(place.run())
    assert f'data-terminal-url="/ws/sessions/{running.pk}/terminal/"' in tab_of(browser, running, "terminal")
    assert 'hx-get="?tab=terminal&amp;part=tab"' in tab_of(browser, waiting, "terminal")
    part = tab_of(browser, running, "terminal&part=tab", headers={"HX-Request": "true"})
    assert part.lstrip().startswith('<div class="session-tab-tools">')
    assert "The session does not run" in tab_of(browser, ended, "terminal")
    admin = browser_of(make_user(admin_of=place.project))
    assert admin.get(f"/sessions/{running.pk}/?tab=terminal").status_code == 403


def test_an_app_can_be_opened_before_the_session_is_ready(place: Place, browser: Client) -> None:
    session = place.enqueue()
    page = tab_of(browser, session, "overview")
    assert "Open JupyterLab when ready" in page
    assert f"jupyter-{session.host_label}.apps.localhost" in page
    assert "when ready" not in tab_of(browser, place.run(), "overview")


def test_the_log_names_its_container(place: Place, browser: Client) -> None:
    session = place.run()
    Kernel.objects.create(session=session, role="sub")
    page = tab_of(browser, session, "log&kernel=sub1")
    assert "?follow=1&amp;previews=1&amp;kernel=sub1" in page
    assert 'href="?tab=log&amp;kernel=main1"' in page
    assert browser.get(f"/sessions/{session.pk}/?tab=log&kernel=none").status_code == 404
    download = browser.get(f"/sessions/{session.pk}/log/?kernel=main1")
    assert download["Content-Disposition"] == f'attachment; filename="{session.name}-main1.log"'


def test_without_javascript_the_present_values_are_meters(place: Place, browser: Client) -> None:
    session = place.run()
    assert "Nothing is known of what it uses now" in tab_of(browser, session, "charts")
    collector.measure_sessions()
    page = tab_of(browser, session, "charts&window=1h")
    assert "256\N{NO-BREAK SPACE}MiB of 1\N{NO-BREAK SPACE}GiB" in page
    assert 'data-window="1h" data-is-live' in page
    assert 'data-window="15m"' in tab_of(browser, place.end(session), "charts&window=x")


def test_charts_are_those_of_one_container(place: Place, browser: Client) -> None:
    session = place.run(roles=[{"name": "worker", "resources": {"cpu": 1, "mem": "2g"}}])
    collector.measure_sessions()
    page = tab_of(browser, session, "charts&kernel=worker1&window=1h")
    assert 'data-kernel="worker1"' in page
    assert "of 2\N{NO-BREAK SPACE}GiB" in page
    assert 'href="?tab=charts&amp;window=1h&amp;kernel=main1"' in page
    assert 'href="?tab=charts&amp;kernel=worker1&amp;window=15m"' in page
    told = browser.get(f"/api/v1/sessions/{session.pk}/metrics/?kernel=worker1").json()
    assert [kernel["name"] for kernel in told["kernels"]] == ["worker1"]


# Why it ended, and what helps


def test_out_of_memory_offers_twice_as_much(place: Place, browser: Client) -> None:
    session = fail(place, Reason.OUT_OF_MEMORY, resources={"cpu": 1, "mem": "1g"})
    page = tab_of(browser, session, "overview")
    assert "It needed more memory than it asked for." in page
    assert "Start again with 2 GiB" in page
    assert launcher_link(session, mem="2g", size="small") in page


def test_a_running_session_whose_program_was_killed_for_memory_is_offered_more(
    place: Place, browser: Client
) -> None:
    session = place.run()
    place.runtime.kill_for_memory(
        Kernel.objects.get(session=session).container_name, datetime(2026, 1, 1, tzinfo=UTC)
    )
    loop.reconcile_agent(place.agent, place.runtime)
    page = tab_of(browser, session, "overview")
    assert "A program ran out of memory." in page
    assert "Start again with 2 GiB" in page


@pytest.mark.parametrize(
    ("reason", "asked", "sentence", "remedy"),
    [
        (
            Reason.COMMAND_FAILED,
            {"type": "batch", "command": "false"},
            "The command ended with an error. The log says why.",
            "Read the end of the log",
        ),
        (
            Reason.CONTAINER_EXITED,
            {},
            "The container ended by itself. The log may say why.",
            "Read the end of the log",
        ),
        (
            Reason.COMMAND_TIMED_OUT,
            {"type": "batch", "command": "sleep 99", "timeout_s": 60},
            "The command was stopped at its time limit.",
            "Start again with 2 min",
        ),
        (
            Reason.IMAGE_MISSING,
            {},
            "No registry and no other machine has the image.",
            "Start again with another image",
        ),
        (
            Reason.FOLDER_UNAVAILABLE,
            {},
            "One of its folders is not there any more.",
            "Start again without that folder",
        ),
        (Reason.AGENT_LOST, {}, "The machine did not answer any more.", "Start again"),
        (Reason.WALLS_MISSING, {}, "so nothing was started there.", "Start again"),
    ],
)
def test_an_end_that_nobody_asked_for_says_what_helps(
    place: Place, browser: Client, reason: Reason, asked: dict[str, Any], sentence: str, remedy: str
) -> None:
    page = tab_of(browser, fail(place, reason, **asked), "overview")
    assert page.count(sentence) == 1
    assert remedy in page


def test_an_end_that_was_asked_for_needs_no_remedy(place: Place, browser: Client) -> None:
    assert "session-outcome" not in tab_of(browser, place.end(place.run()), "overview")


def test_an_admin_reads_why_but_does_not_start_again(place: Place, browser_of: BrowserOf) -> None:
    session = fail(place, Reason.OUT_OF_MEMORY)
    page = tab_of(browser_of(make_user(admin_of=place.project)), session, "overview")
    assert "It needed more memory than it asked for." in page
    assert "Start again" not in page
