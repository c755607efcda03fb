"""A notebook that is only open is no work: its owner is warned, and its session ends. One cell is work."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import compute, expect_launcher, follow, run_cell
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(900)]

REPORT_S = 10  # how often a gateway tells who was seen at work
IDLE_S = 60  # the least that a group may say: warned after half of it
ROUNDS_S = 180  # until gateways have reported, the judge has looked and the owner was told
TWO_REPORTS = timedelta(seconds=2 * REPORT_S)


@pytest.fixture
def idle_time(portal: RunningPortal) -> Iterator[Callable[[int], None]]:
    """Return a function that gives sessions of the default group this idle time, in seconds."""
    superadmin = portal.person("superadmin")
    yield lambda seconds: superadmin.change_resource_group("default", max_idle_s=seconds)
    superadmin.change_resource_group("default", max_idle_s=None)


def test_an_open_notebook_moves_no_idle_time_and_one_cell_does(
    idle_time: Callable[[int], None], browse: Browse, user: Person
) -> None:
    idle_time(3600)
    session, lab = open_notebook(browse, user)

    def left_alone() -> str | None:
        """Return when somebody was last at work, once two reports have seen nobody."""
        seen: str = user.session(session["id"])["ending"]["interacted_at"]
        age = datetime.now(UTC) - datetime.fromisoformat(seen)
        return seen if age > TWO_REPORTS else None

    before = wait_until(left_alone, deadline_s=ROUNDS_S)
    expect(lab.get_by_text("| Idle")).to_be_visible()  # it is still open, and connected to its kernel

    run_next_cell(lab, "print(7 * 7)", shows="49")
    wait_until(
        lambda: user.session(session["id"])["ending"]["interacted_at"] > str(before), deadline_s=ROUNDS_S
    )


@pytest.mark.wide
def test_an_open_notebook_ends_as_unused_and_one_cell_puts_it_off(
    idle_time: Callable[[int], None], browse: Browse, user: Person
) -> None:
    idle_time(IDLE_S)
    session, lab = open_notebook(browse, user)
    warned = warning_of(user, session["id"])
    assert (warned["cause"], warned["is_soon"]) == ("interaction", True)
    expect(lab.get_by_text("| Idle")).to_be_visible()

    run_next_cell(lab, "print(7 * 7)", shows="49")
    after = wait_until(lambda: spared(user, session["id"], warned), deadline_s=ROUNDS_S)
    assert isinstance(after, dict)
    assert after["interacted_at"] > warned["interacted_at"]

    ended = user.wait_for_status(session["id"], "TERMINATED", deadline_s=IDLE_S + 2 * ROUNDS_S)
    assert ended["status_reason"] == "unused"
    assert not lab.is_closed()


def open_notebook(browse: Browse, user: Person) -> tuple[dict[str, Any], Page]:
    """Start a session and compute something in its JupyterLab."""
    session = user.start_running_session()
    page = browse(user)
    page.goto(f"/sessions/{session['id']}/")
    lab = follow(page.get_by_role("link", name="Open JupyterLab"))
    expect_launcher(lab)
    assert compute(lab, "print(6 * 7)") == "42"
    return session, lab


def warning_of(user: Person, session_id: str) -> dict[str, Any]:
    """Return what is told of its end once its owner was warned."""

    def warned() -> dict[str, Any] | None:
        ending: dict[str, Any] = user.session(session_id)["ending"]
        return ending if ending["is_near"] else None

    found = wait_until(warned, deadline_s=IDLE_S + ROUNDS_S)
    assert isinstance(found, dict)
    return found


def spared(user: Person, session_id: str, warned: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is told of its end once that was put off."""
    session = user.session(session_id)
    assert session["status"] == "RUNNING", session
    ending: dict[str, Any] = session["ending"]
    return ending if not ending["is_near"] and ending["ends_at"] > warned["ends_at"] else None


def run_next_cell(lab: Page, code: str, *, shows: str) -> None:
    """Type into the last cell and run it, like a person who comes back to a notebook."""
    run_cell(lab, lab.locator(".jp-Notebook .cm-content").last, code)
    output = lab.locator(".jp-Notebook .jp-OutputArea-output").last
    expect(output).to_contain_text(shows)
