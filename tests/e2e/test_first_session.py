"""A new user signs in, starts a session, computes in a notebook and finds the file again."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import TerminalPage, compute, expect_launcher, expect_status, follow, sign_in
from tests.e2e.person import Person

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

WRITE_AND_SAY = """
with open("/home/work/results/answer.txt", "w") as file:
    file.write("from a notebook")
print(6 * 7)
"""


def test_a_notebook_is_two_clicks_from_start(browse: Browse, user: Person) -> None:
    page = browse()
    clicks: list[str] = []
    page.goto("/")
    sign_in(page, user)
    expect(page.get_by_role("heading", name="Start", exact=True)).to_be_visible()
    count_clicks(page, clicks)

    page.get_by_role("button", name="Start", exact=True).click()
    lab = follow(page.get_by_role("link", name="Open JupyterLab"))

    expect_launcher(lab)
    assert len(clicks) == 2
    assert lab.url.split("/")[2] != page.url.split("/")[2]
    assert compute(lab, "print(6 * 7)") == "42"


def test_what_a_notebook_writes_into_a_folder_is_there_in_the_next_session(
    browse: Browse, user: Person
) -> None:
    page = browse(user)
    page.goto("/data/")
    page.get_by_label("Name", exact=True).fill("results")
    page.get_by_role("button", name="Create folder").click()
    launch_with_folder(page, "results")

    lab = follow(page.get_by_role("link", name="Open JupyterLab"))
    expect_launcher(lab)
    assert compute(lab, WRITE_AND_SAY) == "42"
    lab.close()

    page.get_by_role("button", name="Stop").click()
    expect_status(page, "Terminated")
    page.get_by_role("button", name="Start again").click()
    page.get_by_role("link", name="Terminal").click()
    terminal = TerminalPage(page)
    terminal.run("cat results/answer.txt; echo")
    terminal.expect_line("^from a notebook$")


def launch_with_folder(page: Page, folder: str) -> None:
    page.goto("/")
    page.get_by_role("link", name="Start with choices").click()
    page.get_by_label(folder, exact=True).check()
    page.get_by_role("button", name="Launch").click()
    expect_status(page, "Running")


def count_clicks(page: Page, clicks: list[str]) -> None:
    """Note each click of a person in this browser from the next document on, and in the present one."""
    listen = "document.addEventListener('click', (event) => event.isTrusted && noteClick(), true)"
    page.context.expose_function("noteClick", lambda: clicks.append("click"))
    page.context.add_init_script(listen)
    page.evaluate(listen)
