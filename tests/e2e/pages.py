"""Actions of users on pages, one function each."""

import re
import time

from playwright.sync_api import Locator, Page, Request, expect

from tests.e2e.person import Person
from tests.waiting import wait_until

LAB_DEADLINE_S, LAB_LOOK_MS = 120, 10_000


def sign_in(page: Page, person: Person) -> None:
    """From the sign-in page, which must be shown, to wherever it leads."""
    page.get_by_label("E-mail").fill(person.email)
    page.get_by_label("Password").fill(person.password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Sign in")).to_have_count(0)


def expect_status(page: Page, word: str, deadline_s: float = 45) -> None:
    """The page of a session shows this status, without a reload by us."""
    expect(page.locator(".status-badge").first).to_contain_text(word, timeout=deadline_s * 1000)


def follow(link: Locator) -> Page:
    """Click a link that opens a new tab; the tab."""
    with link.page.expect_popup() as opened:
        link.click()
    return opened.value


def expect_launcher(lab: Page) -> None:
    """JupyterLab is there and offers notebooks."""
    dropped: list[str] = []
    lab.on("requestfailed", lambda request: _note_drop(request, dropped))
    give_up_at = time.monotonic() + LAB_DEADLINE_S
    while time.monotonic() < give_up_at:
        try:
            expect(notebook_card(lab)).to_be_visible(timeout=LAB_LOOK_MS)
            return
        except AssertionError:
            if dropped:
                dropped.clear()
                lab.reload()
    raise AssertionError(f"No launcher in {lab.url} within {LAB_DEADLINE_S} s.")


def _note_drop(request: Request, dropped: list[str]) -> None:
    """Chromium gives up all that it loads when an interface of its machine comes or goes, as those of containers do."""
    if "ERR_NETWORK_CHANGED" in (request.failure or ""):
        dropped.append(request.url)


def notebook_card(lab: Page) -> Locator:
    return lab.locator(".jp-LauncherCard[data-category='Notebook']").first


def compute(lab: Page, code: str) -> str:
    """Run `code` in the first cell of a new notebook; the first output."""
    notebook_card(lab).click()
    # JupyterLab draws a new notebook again once its kernel is there; what was typed before that is lost.
    expect(lab.get_by_text("| Idle")).to_be_visible(timeout=LAB_DEADLINE_S * 1000)
    run_cell(lab, lab.locator(".jp-Notebook .cm-content").first, code)
    output = lab.locator(".jp-Notebook .jp-OutputArea-output").first
    expect(output).to_be_visible(timeout=LAB_DEADLINE_S * 1000)
    return output.inner_text().strip()


def run_cell(lab: Page, cell: Locator, code: str) -> None:
    """Type `code` into this cell and run it, by the button: a key that is pressed while JupyterLab still draws may be lost."""
    cell.fill(code)
    lab.get_by_role("button", name="Run this cell and advance").click()


def do_not_reload(page: Page) -> None:
    """From now on `has_not_reloaded` tells whether the document is still the same."""
    page.evaluate("window.isSameDocument = true")


def has_not_reloaded(page: Page) -> bool:
    return bool(page.evaluate("window.isSameDocument === true"))


class TerminalPage:
    """A shell in the page of a terminal, once it has shown its prompt."""

    def __init__(self, page: Page, number: int = 1) -> None:
        self.page = page
        self._frame = page.get_by_role("tabpanel", name=f"Shell {number}")
        expect(self._frame.locator("[data-terminal-state]")).to_have_text("Connected")
        self.expect_line(r"\$ ?$")

    def run(self, line: str) -> None:
        """Type a line and press Enter."""
        self.focus()
        self.page.keyboard.type(line)
        self.page.keyboard.press("Enter")

    def focus(self) -> None:
        self._frame.locator(".xterm-helper-textarea").focus()

    def expect_line(self, pattern: str, deadline_s: float = 20) -> re.Match[str]:
        """A line on the screen matches, now or soon."""

        def shown() -> re.Match[str] | None:
            return re.search(pattern, self.text(), re.MULTILINE)

        try:
            return wait_until(shown, deadline_s=deadline_s, interval_s=0.1)  # type: ignore[return-value]
        except AssertionError as error:
            raise AssertionError(f"No line matches {pattern!r}. The screen shows:\n{self.text()}") from error

    def text(self) -> str:
        return "\n".join(row.replace("\xa0", " ").rstrip() for row in self._rows.all_text_contents())

    def row_count(self) -> int:
        return self._rows.count()

    @property
    def _rows(self) -> Locator:
        return self._frame.locator(".xterm-rows > div")
