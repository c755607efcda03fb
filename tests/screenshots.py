"""Pictures of the pages, taken from a portal of its own in which people are at work."""

import argparse
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from portal.ops.layout import CHECKOUT
from tests.e2e.conftest import BROWSER_OPTIONS, signed_in_state
from tests.e2e.every_page import OF_SUPERADMINS, PAGES, pages_of_session
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal
from tests.waiting import wait_until

IMAGES = CHECKOUT / "docs" / "images"
WINDOW: ViewportSize = {"width": 1280, "height": 800}
WIDTHS = (360, 768, 1440)
THEMES = ("light", "dark")
DRAWN_S = 1.0
SAMPLES = 9  # so that charts have something to show
WORK = """
for epoch in $(seq 1 400); do
  python -c 'sum(n * n for n in range(2_000_000)); open("/tmp/weights", "wb").write(bytes(2**24))'
  echo "epoch $epoch: loss $(python -c "print(round(2.3 / ($epoch ** 0.4), 4))")"
  sleep 1
done
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """A portal in which somebody works: a notebook and a command that run, one that has failed, folders with files."""

    user: Person
    superadmin: Person
    notebook: dict[str, Any]
    training: dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/screenshots", description=__doc__)
    parser.add_argument("--all", metavar="DIR", type=Path, help="every page, in both themes and three widths")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the portal is cleared away then too
    with people_at_work() as (portal, stage), chromium() as browser:
        if given.all:
            take_all(browser, portal, stage, given.all)
        else:
            take_for_documents(browser, portal, stage, IMAGES)
    return 0


@contextmanager
def people_at_work() -> Iterator[tuple[RunningPortal, Stage]]:
    with tempfile.TemporaryDirectory(prefix="berth-screenshots-") as directory:
        portal = RunningPortal(Path(directory) / "data")
        try:
            portal.start()
            yield portal, set_stage(portal)
        finally:
            portal.remove()


def set_stage(portal: RunningPortal) -> Stage:
    user = portal.person("user")
    folder = user.make_folder(
        "my-files",
        **{"notes.md": "# Notes\n", "train.py": "print('epoch 1')\n", "results.csv": "epoch,loss\n"},
    )
    user.make_folder("datasets", **{"README.md": "What is in here\n"})
    failed = user.start_session(name="preprocess", type="batch", command="echo reading; exit 3")
    user.wait_for_status(failed, "TERMINATED", "ERROR")
    mounts = [{"folder": folder}]
    notebook = user.start_running_session(name="notebook", mounts=mounts)
    training = user.start_running_session(name="training", type="batch", command=WORK, mounts=mounts)
    wait_until(lambda: user.samples(training["id"]) >= SAMPLES, deadline_s=300, interval_s=1)
    return Stage(user, portal.person("superadmin"), notebook, training)


@contextmanager
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("Pictures need Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(BROWSER_OPTIONS))
        yield browser
        browser.close()


@contextmanager
def page_of(
    browser: Browser, portal: RunningPortal, person: Person, theme: str, window: ViewportSize
) -> Iterator[Page]:
    state = signed_in_state(browser, portal.url, person)
    context = browser.new_context(
        base_url=portal.url,
        storage_state=state,
        viewport=window,
        color_scheme="dark" if theme == "dark" else "light",
    )
    yield context.new_page()
    context.close()


def take_for_documents(browser: Browser, portal: RunningPortal, stage: Stage, directory: Path) -> None:
    """The pictures that documents show; their names stand in the documents."""
    directory.mkdir(exist_ok=True)
    training = f"/sessions/{stage.training['id']}/"
    pictures = (
        ("start", "/", "light"),
        ("dashboard", "/dashboard/", "light"),
        ("launcher", "/sessions/new/", "light"),
        ("session", training, "light"),
        ("charts", f"{training}?tab=charts", "dark"),
        ("sessions", "/sessions/", "dark"),
    )
    for name, address, theme in pictures:
        with page_of(browser, portal, stage.user, theme, WINDOW) as page:
            take(page, address, directory / f"{name}.png")


def take_all(browser: Browser, portal: RunningPortal, stage: Stage, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    of_user = (*PAGES, *pages_of_session(stage.notebook), *pages_of_session(stage.training))
    for theme in THEMES:
        for width in WIDTHS:
            window: ViewportSize = {"width": width, "height": 800}
            with page_of(browser, portal, stage.user, theme, window) as page:
                take_each(page, of_user, directory, f"{theme}-{width}")
            with page_of(browser, portal, stage.superadmin, theme, window) as page:
                take_each(page, OF_SUPERADMINS, directory, f"{theme}-{width}-superadmin")


def take_each(page: Page, addresses: Sequence[str], directory: Path, suffix: str) -> None:
    for address in addresses:
        words = re.sub(r"[0-9a-f]{8}-[0-9a-f-]+", "session", address)
        name = re.sub(r"[^a-z0-9]+", "-", words).strip("-") or "start"
        take(page, address, directory / f"{name}-{suffix}.png", is_whole=True)


def take(page: Page, address: str, file: Path, *, is_whole: bool = False) -> None:
    page.goto(address)
    page.wait_for_timeout(DRAWN_S * 1000)
    page.screenshot(path=file, full_page=is_whole, animations="disabled")
    sys.stdout.write(f"{file}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
