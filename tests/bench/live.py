"""Measure the time from a REST request to the live update in an open page.

In Chromium, on a new portal or, with --data, on a running one. The request creates a folder; the
page records when its event stream delivers the event. Both use the same clock, which starts before
the request is sent; the time since the commit is therefore shorter.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from portal.ops.setup.env_file import read_env
from tests.bench.frame import Measure, Options, Row, never_above, row_of, say
from tests.e2e.conftest import BROWSER_OPTIONS, signed_in_state
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal

TIMES = 40
TARGET_MS = 500
NOTE = """() => {
  window.notedAt = {};
  const tell = document.body.dispatchEvent.bind(document.body);
  document.body.dispatchEvent = (event) => { window.notedAt[event.type] ??= Date.now(); return tell(event); };
}"""


def bench(options: Options) -> list[Row]:
    with somebody(options) as (url, person):
        waits_ms = measure(url, person)
    measured = Measure("request to page", "ms", ours=lambda: 0.0, target=never_above(TARGET_MS))
    return [row_of(measured, waits_ms, [])]


@contextmanager
def somebody(options: Options) -> Iterator[tuple[str, Person]]:
    """Yield the URL of a portal and an ordinary user there."""
    if options.is_given:
        url = read_env(options.layout.env_file)["BERTH_URL"]
        people = json.loads(options.layout.first_run_file.read_text())["users"]
        found = next(person for person in people if person["role"] == "user")
        yield url, Person(url, found["email"], found["password"], found["token"])
        return
    with tempfile.TemporaryDirectory() as directory:
        portal = RunningPortal(Path(directory) / "data")
        try:
            say("starting a portal of its own")
            portal.start()
            yield portal.url, portal.person("user")
        finally:
            portal.remove()


def measure(url: str, person: Person) -> list[float]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(BROWSER_OPTIONS)
        )
        context = browser.new_context(base_url=url, storage_state=signed_in_state(browser, url, person))
        page = context.new_page()
        page.goto("/profile/")
        page.wait_for_selector("body[data-live=open]")
        page.evaluate(NOTE)
        waits_ms = [one_wait_ms(page, person) for _ in range(TIMES)]
        browser.close()
    return waits_ms


def one_wait_ms(page: Page, person: Person) -> float:
    asked_at_ms = time.time() * 1000
    folder_id = person.make_folder(f"live-{time.time_ns()}")
    noted: Any = None
    while noted is None:
        noted = page.evaluate(f"window.notedAt[{json.dumps(f'berth:folder-changed:{folder_id}')}] ?? null")
    return float(noted) - asked_at_ms
