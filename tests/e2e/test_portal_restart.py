"""Sessions outlive the portal, and launches the death of who carries them."""

import os
import signal
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import (
    TerminalPage,
    do_not_reload,
    expect_launcher,
    expect_status,
    follow,
    has_not_reloaded,
)
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]


def test_a_session_is_reachable_again_after_the_portal_was_restarted(
    browse: Browse, portal: RunningPortal, user: Person, shared_session: dict[str, Any]
) -> None:
    page = browse(user)
    page.goto(f"/sessions/{shared_session['id']}/terminal/")
    TerminalPage(page).run("echo before > /tmp/note")
    page.goto(f"/sessions/{shared_session['id']}/")
    expect_status(page, "Running")
    do_not_reload(page)

    try:
        assert portal.stop() == 0
        expect(page.get_by_text("Connection lost, retrying")).to_be_visible()
    finally:
        portal.start(deadline_s=60)

    expect(page.get_by_text("Connection lost, retrying")).to_be_hidden()
    expect_status(page, "Running")
    assert has_not_reloaded(page)
    expect_launcher(follow(page.get_by_role("link", name="Open JupyterLab")))
    page.get_by_role("link", name="Terminal").click()
    terminal = TerminalPage(page)
    terminal.run("cat /tmp/note")
    terminal.expect_line("^before$")


def homes(portal: RunningPortal) -> set[str]:
    """What a launch makes on the engine before its container."""
    return {name for name in portal.engine_objects() if name.startswith("berth-home-")}


def test_a_launch_goes_on_when_its_worker_is_killed(
    browse: Browse, portal: RunningPortal, user: Person
) -> None:
    worker = portal.pid_of("worker@berth")
    before = homes(portal)
    session_id = user.start_session()

    wait_until(lambda: homes(portal) - before, interval_s=0.002)
    assert worker
    os.kill(worker, signal.SIGKILL)

    assert user.session(session_id)["status"] != "RUNNING"
    page = browse(user)
    page.goto(f"/sessions/{session_id}/")
    do_not_reload(page)
    expect_status(page, "Running", deadline_s=60)
    assert has_not_reloaded(page)
    assert portal.pid_of("worker@berth") not in (None, worker)
    expect_launcher(follow(page.get_by_role("link", name="Open JupyterLab")))
