"""Pages tell what happens elsewhere without being reloaded."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import do_not_reload, expect_status, has_not_reloaded
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

SAY_WAIT_SAY = (
    "echo first; n=0; until [ -e signals/go ]; do n=$((n+1)); printf '\\rwaiting %03d' $n; sleep 0.1; done; "
    "printf '\\rwaited     \\n'; echo second; exit 7"
)


def test_a_batch_session_shows_its_log_and_its_exit_code_as_they_come(browse: Browse, user: Person) -> None:
    signals = user.make_folder("signals")
    page = browse(user)
    page.goto("/sessions/new/?type=batch")
    page.get_by_label("Command", exact=True).fill(SAY_WAIT_SAY)
    page.get_by_label("signals", exact=True).check()
    page.get_by_role("button", name="Launch").click()
    expect(page.get_by_role("heading", name="Log")).to_be_visible()
    do_not_reload(page)
    log = page.locator("[data-log-lines]")

    expect(log).to_have_text(re.compile(r"^first\nwaiting 0[2-9]\d$"))
    expect_status(page, "Running")
    expect(page.get_by_text("Exit code")).to_have_count(0)

    user.put_file(signals, "go", "")

    expect(log).to_have_text("first\nwaited     \nsecond\n")
    expect(page.get_by_text("Exit code 7")).to_be_visible()
    expect_status(page, "Terminated")
    assert has_not_reloaded(page)


def test_a_log_is_searched_paused_and_linked_to_by_its_lines(browse: Browse, user: Person) -> None:
    command = "for number in $(seq 300); do echo entry $number of many; done; echo the end"
    session_id = user.start_session(type="batch", command=command)
    user.wait_for_status(session_id, "TERMINATED")
    page = browse(user)
    page.goto(f"/sessions/{session_id}/?tab=log")
    log = page.get_by_role("region", name="Log of main1")
    expect(log.get_by_role("status").first).to_have_text("End of the log")

    log.get_by_label("Search in the log").fill("ENTRY 2")
    expect(log.get_by_text("111 of 111")).to_be_visible()
    log.get_by_role("button", name="Next").click()
    expect(log.get_by_text("1 of 111", exact=True)).to_be_visible()
    expect(log.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "false")

    page.goto(f"/sessions/{session_id}/?tab=log#L120")
    page.reload()
    expect(log.get_by_role("status").first).to_have_text("End of the log")
    marked = "() => [...(CSS.highlights.get('log-line') ?? [])].map(String).join()"
    wait_until(lambda: page.evaluate(marked) == "entry 120 of many")


def test_stopping_can_be_taken_back(browse: Browse, user: Person) -> None:
    session = user.start_running_session()
    page = browse(user)
    page.goto(f"/sessions/{session['id']}/")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("It will be stopped in")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("goes on")).to_be_visible()
    assert user.session(session["id"])["stops_at"] is None
    expect_status(page, "Running")


def test_the_list_follows_sessions_that_start_and_stop_elsewhere(browse: Browse, user: Person) -> None:
    page = browse(user)
    page.goto("/sessions/")
    do_not_reload(page)
    row = page.get_by_role("row", name="elsewhere")

    session_id = user.start_session(name="elsewhere")
    expect(row).to_contain_text("Running")
    expect(row.get_by_role("link", name="Terminal")).to_be_visible()

    user.stop_session(session_id)
    expect(row).to_have_count(0)
    assert has_not_reloaded(page)


def test_a_priority_shows_what_others_make_of_it_unless_one_is_being_typed(
    browse: Browse, portal: RunningPortal, user: Person
) -> None:
    admin = portal.person("superadmin")
    admin.change_resource_group("default", is_active=False)
    try:
        waits = user.start_session(name="waits")
        page = browse(admin)
        page.goto("/queue/")
        do_not_reload(page)
        field = page.get_by_label("Priority of waits", exact=True)
        expect(field).to_have_value("0")
        admin.prioritize(waits, 7)
        expect(field).to_have_value("7")

        field.fill("3")
        page.get_by_role("heading", name="Waiting").click()
        admin.prioritize(waits, 9)
        user.start_session(name="later")
        expect(page.get_by_role("row", name="later")).to_be_visible()
        expect(field).to_have_value("3")
        assert has_not_reloaded(page)
    finally:
        admin.change_resource_group("default", is_active=True)
