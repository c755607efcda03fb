"""The terminal in the page is a real one."""

import hashlib
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import TerminalPage
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

LONG_TEXT = "".join(f"{number:06d} the quick brown fox jumps over the lazy dog\n" for number in range(4000))


def open_terminal(browse: Browse, person: Person, session: dict[str, Any]) -> TerminalPage:
    page = browse(person, permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"/sessions/{session['id']}/terminal/")
    return TerminalPage(page)


def test_a_terminal_echoes_and_computes(browse: Browse, user: Person, shared_session: dict[str, Any]) -> None:
    terminal = open_terminal(browse, user, shared_session)

    terminal.run("echo $((6 * 7)) in $(pwd) as $(id -u)")

    terminal.expect_line(r"echo \$\(\(6 \* 7\)\)")
    terminal.expect_line(r"^42 in /home/work as [1-9]\d*$")


def test_a_terminal_follows_the_size_of_the_page(
    browse: Browse, user: Person, shared_session: dict[str, Any]
) -> None:
    terminal = open_terminal(browse, user, shared_session)
    terminal.run("echo first: $(stty size)")
    rows, columns = map(int, terminal.expect_line(r"^first: (\d+) (\d+)$").groups())
    assert rows == terminal.row_count()

    terminal.page.set_viewport_size({"width": 900, "height": 600})
    wait_until(lambda: terminal.row_count() < rows)
    terminal.run("echo second: $(stty size)")

    smaller_rows, smaller_columns = map(int, terminal.expect_line(r"^second: (\d+) (\d+)$").groups())
    assert smaller_rows == terminal.row_count()
    assert smaller_columns < columns


def test_a_long_paste_arrives_whole(browse: Browse, user: Person, shared_session: dict[str, Any]) -> None:
    terminal = open_terminal(browse, user, shared_session)
    # Not before the command runs: the shell's prompt asks browsers to put marks around what is pasted.
    terminal.run("echo ready; cat > /tmp/pasted")
    terminal.expect_line("^ready$")

    terminal.page.evaluate("text => navigator.clipboard.writeText(text)", LONG_TEXT)
    terminal.focus()
    terminal.page.keyboard.press("Control+Shift+V")
    terminal.expect_line(r"^003999 the quick brown fox", deadline_s=45)
    terminal.page.keyboard.press("Control+D")

    terminal.run("clear; sha256sum /tmp/pasted")
    digest = hashlib.sha256(LONG_TEXT.encode()).hexdigest()
    terminal.expect_line(f"^{digest}")


def test_two_terminals_of_a_session_are_two_shells(
    browse: Browse, user: Person, shared_session: dict[str, Any]
) -> None:
    first = open_terminal(browse, user, shared_session)
    first.run("place=harbour; tty")
    device = first.expect_line(r"^/dev/pts/\d+$")[0]
    first.page.get_by_role("button", name="New shell").click()
    second = TerminalPage(first.page, number=2)

    second.run("echo \"place: '$place'\"; tty")
    second.expect_line("^place: ''$")
    assert second.expect_line(r"^/dev/pts/\d+$")[0] != device

    first.page.get_by_role("tab", name="Shell 1").click()
    first.run("echo \"place: '$place'\"")
    first.expect_line("^place: 'harbour'$")


def test_shells_are_gone_once_their_page_is_left(
    browse: Browse, portal: RunningPortal, user: Person, shared_session: dict[str, Any]
) -> None:
    def left_over() -> list[str]:
        processes = portal.commands_in(shared_session["id"])
        return [process for process in processes if "sleep 98765" in process or "bash" in process]

    wait_until(lambda: not left_over())  # shells of pages that earlier tests have just closed
    closed = open_terminal(browse, user, shared_session)
    left = open_terminal(browse, user, shared_session)
    for terminal in (closed, left):
        terminal.run("sleep 98765")
    wait_until(lambda: len([line for line in left_over() if "sleep" in line]) == 2)

    closed.page.close()
    left.page.goto("/sessions/")
    expect(left.page.get_by_role("heading", name="Sessions")).to_be_visible()

    wait_until(lambda: not left_over())
