"""One portal for all tests of this folder, one browser for each module, and pictures of what failed."""

import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.doubles.identity_provider import CLIENT_ID, SECRET, IdentityProvider
from tests.e2e.pages import sign_in
from tests.e2e.person import Person
from tests.e2e.portal import ON_ALL_ADDRESSES, RunningPortal, local_url

BROWSER_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 60_000
WINDOW = {"width": 1280, "height": 800}
LONGEST = ("test_accessibility", "test_languages", "test_up")

Browse = Callable[..., Page]
PHASES = pytest.StashKey[dict[str, bool]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files begin, so that no worker is left alone with one of them at the end."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)


@pytest.fixture(scope="session")
def identity_provider() -> Iterator[IdentityProvider]:
    """By which people may sign in to the portal; nobody does unless a test says who."""
    provider = IdentityProvider()
    yield provider
    provider.close()


@pytest.fixture(scope="session")
def portal(
    tmp_path_factory: pytest.TempPathFactory, identity_provider: IdentityProvider
) -> Iterator[RunningPortal]:
    """A portal that has just come up for the first time."""
    data = tmp_path_factory.mktemp("portal") / "data"
    secret = tmp_path_factory.mktemp("provider") / "secret"
    secret.write_text(SECRET)
    environment = {
        "BERTH_HOSTS": local_url(),
        "BERTH_OIDC": "harbour",
        "BERTH_OIDC_HARBOUR_NAME": "Harbour ID",
        "BERTH_OIDC_HARBOUR_ISSUER": identity_provider.issuer,
        "BERTH_OIDC_HARBOUR_CLIENT_ID": CLIENT_ID,
        "BERTH_OIDC_HARBOUR_SECRET_FILE": str(secret),
        "BERTH_OIDC_HARBOUR_TRUSTS": "harbour.example",
        "BERTH_OIDC_HARBOUR_UNKNOWN": "create",
        "BERTH_OIDC_HARBOUR_DOMAIN": "default",
        "BERTH_OIDC_HARBOUR_PROJECTS": "demo",
    }
    one = RunningPortal(data, options=ON_ALL_ADDRESSES, environment=environment)
    try:
        one.start()
        yield one
    finally:
        one.remove()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium. Ended with the module: while it lives, its event loop is the thread's running one."""
    program = shutil.which("chromium")
    assert program, "The browser tests need Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(BROWSER_OPTIONS))
        expect.set_options(timeout=PATIENCE_MS)
        yield browser
        browser.close()


@pytest.fixture
def browse(portal: RunningPortal, chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Browse]:
    """`browse(person)` gives a page in a browser of its own, signed in; `browse()` one that nobody signed in."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def open_browser(person: Person | None = None, *, base_url: str = portal.url, **options: Any) -> Page:
        state = signed_in_state(chromium, portal.url, person) if person else None
        context = chromium.new_context(base_url=base_url, storage_state=state, viewport=WINDOW, **options)
        context.set_default_timeout(PATIENCE_MS)
        context.on("page", lambda page: watch(page, base_url, faults))
        contexts.append(context)
        return context.new_page()

    yield open_browser
    if has_failed(request.node):
        take_pictures(contexts, request)
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def user(portal: RunningPortal) -> Person:
    return portal.person("user")


@pytest.fixture
def domain_admin(portal: RunningPortal) -> Person:
    return portal.person("domain_admin")


@pytest.fixture(scope="module")
def shared_session(portal: RunningPortal) -> Iterator[dict[str, Any]]:
    """A running interactive session of the user, for tests that leave it as it was."""
    owner = portal.person("user")
    session = owner.start_running_session(name="shared")
    portal.kept_sessions.add(session["id"])
    yield session
    portal.kept_sessions.clear()
    owner.end_session(session["id"])


@pytest.fixture(autouse=True)
def no_session_stays(portal: RunningPortal, no_cover: None) -> Iterator[None]:
    """A test that failed must not hold the machine that the next one needs. Coverage, which would slow the tests down, is
    not measured: the portal runs in processes of its own."""
    yield
    everybody = portal.person("superadmin")
    for session_id in set(everybody.live_sessions()) - portal.kept_sessions:
        everybody.end_session(session_id)


def signed_in_state(browser: Browser, url: str, person: Person) -> Any:
    """Cookies after a sign-in by the page; people sign in once in a run."""
    if person.storage_state is None:
        context = browser.new_context(base_url=url)
        page = context.new_page()
        page.goto("/")
        sign_in(page, person)
        person.storage_state = context.storage_state()
        context.close()
    return person.storage_state


def watch(page: Page, base_url: str, faults: list[str]) -> None:
    """Note faults of the portal's scripts, and whatever its Content-Security-Policy stops."""

    def note_message(message: ConsoleMessage) -> None:
        if page.url.startswith(base_url) and "Content Security Policy" in message.text:
            faults.append(message.text)

    def note_error(error: Any) -> None:
        if page.url.startswith(base_url):
            faults.append(str(error))

    page.on("console", note_message)
    page.on("pageerror", note_error)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    item.stash.setdefault(PHASES, {})[report.when] = report.failed
    return report


def has_failed(item: pytest.Item) -> bool:
    return any(item.stash.get(PHASES, {}).values())


def take_pictures(contexts: list[BrowserContext], request: pytest.FixtureRequest) -> None:
    """Pictures of all open tabs in a temporary folder that the summary of the run names."""
    folder: Path = request.getfixturevalue("tmp_path_factory").mktemp("pictures")
    pages = [page for context in contexts for page in context.pages]
    for number, page in enumerate(pages):
        page.screenshot(path=folder / f"{number}.png")
    addresses = ", ".join(page.url for page in pages)
    warnings.warn(f"{request.node.name} failed; pictures of {addresses} in {folder}", stacklevel=1)
