"""Apps of a session open for its owner alone, on origins of their own, and only while it runs."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocket, expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import TerminalPage, expect_launcher, follow, sign_in
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

CUT_WITHIN_S = 5


def jupyter_url(session: dict[str, Any]) -> str:
    return next(str(app["url"]) for app in session["apps"] if app["name"] == "jupyter")


def test_the_cookies_of_the_portal_never_reach_an_app(browse: Browse, user: Person) -> None:
    mirror = Path(__file__).with_name("mirror_server.py").read_text()
    user.make_folder("mirror", **{"mirror_server.py": mirror})
    session = user.start_running_session(mounts=[{"folder": "mirror"}])
    page = browse(user)
    page.goto(f"/sessions/{session['id']}/terminal/")
    terminal = TerminalPage(page)
    terminal.run("python3 mirror/mirror_server.py &")

    app = page.context.new_page()
    app.goto(jupyter_url(session).replace("jupyter-", "p9000-"))
    expect(app.locator("body")).to_contain_text("user-agent")
    app.evaluate("document.cookie = 'own=1'")
    app.reload()

    headers = dict(json.loads(app.locator("body").inner_text()))
    local_names = {cookie["name"] for cookie in page.context.cookies()}
    assert {"berth_session", "berth_csrf"} <= local_names
    assert headers["cookie"] == "own=1"
    assert "authorization" not in headers


@pytest.mark.parametrize("role", ["domain_admin", "superadmin"])
def test_an_administrator_gets_nothing_of_another_persons_app(
    browse: Browse, portal: RunningPortal, shared_session: dict[str, Any], role: str
) -> None:
    page = browse(portal.person(role))

    expect_refusal(page, shared_session, status=403)

    expect(page.get_by_role("main")).to_contain_text("only its owner may be inside")


def test_a_stranger_does_not_even_learn_that_the_session_exists(
    browse: Browse, user: Person, domain_admin: Person
) -> None:
    session = domain_admin.start_running_session()

    expect_refusal(browse(user), session, status=404)


def test_who_is_not_signed_in_is_asked_to_and_then_led_to_the_app(
    browse: Browse, user: Person, shared_session: dict[str, Any]
) -> None:
    page = browse()

    page.goto(jupyter_url(shared_session))
    sign_in(page, user)

    page.wait_for_url(f"{jupyter_url(shared_session)}**")
    expect_launcher(page)


def test_an_app_is_cut_off_when_its_session_stops(browse: Browse, user: Person) -> None:
    session = user.start_running_session()
    page = browse(user)
    page.goto(f"/sessions/{session['id']}/")
    sockets: list[WebSocket] = []
    page.context.on("page", lambda tab: tab.on("websocket", lambda socket: sockets.append(socket)))
    lab = follow(page.get_by_role("link", name="Open JupyterLab"))
    expect_launcher(lab)
    wait_until(lambda: pump(lab) or sockets)

    page.get_by_role("button", name="Stop").click()
    wait_until(lambda: user.session(session["id"])["status"] != "RUNNING")
    stopped_at = time.monotonic()

    def still_open() -> list[str]:
        pump(lab)
        return [socket.url for socket in sockets if not socket.is_closed()]

    with suppress(AssertionError):  # what comes says which
        wait_until(lambda: not still_open(), deadline_s=60)
    assert still_open() == []
    assert time.monotonic() - stopped_at < CUT_WITHIN_S
    answer = lab.reload()
    assert answer is not None
    assert answer.status == 410
    expect(lab.get_by_role("heading", name="This session has ended")).to_be_visible()


def expect_refusal(page: Page, session: dict[str, Any], *, status: int) -> None:
    """Every attempt to get at the app ends on a page of the portal with this status."""
    for path in ("", "api/contents", "lab"):
        answer = page.goto(jupyter_url(session) + path)
        assert answer is not None
        assert answer.status == status
        assert "apps.localhost" not in page.url.split("/")[2]


def pump(page: Page) -> None:
    """Let playwright hand over what the browser has told meanwhile."""
    page.evaluate("0")
