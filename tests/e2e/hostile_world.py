"""The surroundings of a hostile app: a portal, another app of the user, and the user's browser.

In `careless_world` all of them are parts of one address with a cookie for all, as simple portals do it: there each
attempt must succeed, or it proves nothing. In `berth_world` they are what a running Berth makes of them.
"""

import http.server
import json
import secrets
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import docker
from playwright.sync_api import Browser, BrowserContext, Error, Page

from portal.ops.engine.install import SYSTEM_SOCKET
from tests.e2e import hostile_server
from tests.e2e.pages import sign_in
from tests.e2e.person import Person
from tests.waiting import wait_until

PATIENCE_MS = 60_000
VICTIM, EVIL = "victim", "evil"
HELPERS = """
window.soon = (promise, otherwise = "") =>
  Promise.race([promise.catch(() => otherwise), new Promise((done) => setTimeout(done, 30000, otherwise))]);
window.grab = (url, options = {}) =>
  soon(fetch(url, { credentials: "include", ...options }).then((answer) => answer.text()));
window.say = (headers, more = "") =>
  "say?" + headers.map((line) => "header=" + encodeURIComponent(line)).join("&") + more;
"""


@dataclass
class World:
    """Addresses without a slash at their end, and the browser of the person who is attacked."""

    title: str
    browser: Browser
    portal: str
    hostile: str
    target: str
    other: str
    terminal: str
    door_cookie: str
    hostile_door_cookie: str
    signed_in: Any
    email: str
    effects: Any
    sessions: tuple[str, ...] = ()
    is_by_port: bool = False
    is_careless: bool = False
    context: BrowserContext = field(init=False)
    hostile_tab: Page = field(init=False)
    target_tab: Page = field(init=False)

    def begin(self) -> None:
        """A browser in which the person has opened both apps; one that begins again is signed in to them already."""
        self.context = self.browser.new_context(storage_state=self.signed_in)
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.add_init_script(HELPERS)
        self.hostile_tab = self.opened(self.hostile)
        self.target_tab = self.opened(self.target)
        self.signed_in = self.context.storage_state()

    def again(self) -> None:
        """The same in a browser that knows nothing of what happened."""
        self.context.close()
        self.begin()

    def opened(self, app: str) -> Page:
        page = self.context.new_page()
        for _ in range(10):
            try:
                page.goto(f"{app}/page")
                break
            except Error as error:
                # Chromium gives up all that it loads when an interface comes or goes, as those of containers do.
                if "ERR_NETWORK_CHANGED" not in error.message:
                    raise
        page.wait_for_url(f"{app}/page")
        return page

    def run(self, script: str, argument: Any = None) -> Any:
        """What a script of the hostile app returns."""
        return self.hostile_tab.evaluate(script, argument)

    def log(self, tab: Page) -> list[dict[str, Any]]:
        """What the server of the app in this tab was asked so far."""
        return list(tab.evaluate("fetch('log').then((answer) => answer.json())"))

    def logged(self, tab: Page) -> str:
        return json.dumps(self.log(tab))

    def visited(self, url: str) -> str:
        """What the person sees who opens this address in a new tab."""
        page = self.context.new_page()
        try:
            page.goto(url)
            page.wait_for_load_state()
            return str(page.inner_text("body"))
        finally:
            page.close()

    def who(self) -> str:
        """For whom the portal takes the person."""
        return self.visited(f"{self.portal}/api/v1/me/")

    @property
    def session_value(self) -> str:
        """The value of the portal's cookie."""
        cookies = self.context.cookies(self.portal)
        return next(cookie["value"] for cookie in cookies if cookie["name"] == "berth_session")


class CarelessPortal(http.server.BaseHTTPRequestHandler):
    """Portal and apps below one address; whoever has the cookie is in, wherever the request comes from."""

    protocol_version = "HTTP/1.1"
    apps: ClassVar = {name: hostile_server.App() for name in ("hostile", "target")}
    effects = 0

    def _any(self) -> None:
        place, _, rest = self.path.lstrip("/").partition("/")
        if place in self.apps and urllib.parse.urlsplit(rest).path != "callback":
            self._app(place, "/" + rest)
        elif (self.headers.get("Upgrade") or "").lower() == "websocket":
            hostile_server.say_by_websocket(self)
        elif "authorize" in self.path or place in self.apps:
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            self._say(303, "", ("Location", query.get("next", ["/hostile/page"])[0] + "?code=c"))
        else:
            self._portal()

    do_GET = do_POST = do_OPTIONS = _any  # noqa: N815

    def _app(self, place: str, target: str) -> None:
        doors = self._values(f"door-{place}")
        if doors and doors[0] != VICTIM:
            self._say(403, "not yours")
            return
        self.apps[place].answer(self, target)

    def _portal(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        sessions = self._values("berth_session")
        if self.command == "POST" and sessions:
            CarelessPortal.effects += 1
        self._say(200, json.dumps({"email": sessions[0]}) if sessions else "{}")

    def _values(self, name: str) -> list[str]:
        pairs = [pair.strip().partition("=") for pair in (self.headers.get("Cookie") or "").split(";")]
        return [value for found, _, value in pairs if found == name]

    def _say(self, status: int, text: str, *headers: tuple[str, str]) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if self.path == "/" else "text/javascript")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


class CarelessServer(http.server.ThreadingHTTPServer):
    def handle_error(self, *words: object) -> None:
        """Browsers go away in the middle of an answer."""


@contextmanager
def careless_world(browser: Browser) -> Iterator[World]:
    server = CarelessServer(("127.0.0.1", 0), CarelessPortal)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    cookies = {"berth_session": VICTIM, "door-target": VICTIM, "door-hostile": VICTIM}
    state = {
        "origins": [],
        "cookies": [
            {
                "name": name,
                "value": value,
                "domain": "127.0.0.1",
                "path": "/",
                "expires": -1,
                "httpOnly": False,
                "secure": False,
                "sameSite": "Lax",
            }
            for name, value in cookies.items()
        ],
    }
    world = World(
        title="careless portal",
        browser=browser,
        portal=url,
        hostile=f"{url}/hostile",
        target=f"{url}/target",
        other=f"{url}/target",
        terminal="/ws/terminal/",
        door_cookie="door-target",
        hostile_door_cookie="door-hostile",
        signed_in=state,
        email=VICTIM,
        effects=lambda: CarelessPortal.effects,
        is_careless=True,
    )
    try:
        world.begin()
        yield world
        world.context.close()
    finally:
        server.shutdown()
        server.server_close()


@dataclass(frozen=True, slots=True)
class Apps:
    """The sessions with the server of `hostile_server.py` on port 9000."""

    victim: Person
    hostile: dict[str, Any]
    target: dict[str, Any]
    other_person: Person
    other: dict[str, Any]


@contextmanager
def running_apps(victim: Person, other_person: Person, engine: str = SYSTEM_SOCKET) -> Iterator[Apps]:
    """Two sessions of the person who is attacked, and one of somebody else."""
    text = Path(hostile_server.__file__).read_text()
    started = []
    try:
        for person in (victim, victim, other_person):
            name = f"app-{secrets.token_hex(3)}"
            person.make_folder(name, **{"server.py": text})
            started.append((person, person.start_session(name=name, mounts=[{"folder": name}])))
        sessions = [person.wait_for_status(session_id, "RUNNING") for person, session_id in started]
        for session in sessions:
            run_server(session, engine)
        yield Apps(victim, sessions[0], sessions[1], other_person, sessions[2])
    finally:
        for person, session_id in started:
            person.stop_session(session_id)


def run_server(session: dict[str, Any], engine: str) -> None:
    """Start the server in the session's container; returns when it answers there."""
    path = f"/home/work/{session['name']}/server.py"
    asks = "import urllib.request as r; r.urlopen('http://127.0.0.1:9000/page')"
    with docker.APIClient(base_url=engine) as client:
        (container,) = client.containers(filters={"label": f"io.berth.session={session['id']}"})

        def run(*command: str, is_detached: bool = False) -> int | None:
            execution = client.exec_create(container["Id"], list(command))["Id"]
            client.exec_start(execution, detach=is_detached)
            code: int | None = client.exec_inspect(execution)["ExitCode"]
            return code

        run("python3", path, is_detached=True)
        wait_until(lambda: run("python3", "-c", asks) == 0, deadline_s=60, interval_s=0.2)


@contextmanager
def berth_world(browser: Browser, portal: str, apps: Apps, *, is_by_port: bool) -> Iterator[World]:
    """The same in a running Berth that was opened as `portal`."""
    signed_in, others = (
        state_after_sign_in(browser, portal, who) for who in (apps.victim, apps.other_person)
    )
    hostile, target = (
        app_origin(browser, portal, session, signed_in) for session in (apps.hostile, apps.target)
    )
    world = World(
        title="Berth, by port of an address" if is_by_port else "Berth, by host",
        browser=browser,
        portal=portal,
        hostile=hostile,
        target=target,
        other=app_origin(browser, portal, apps.other, others),
        terminal=f"/ws/sessions/{apps.target['id']}/terminal/",
        door_cookie=door_cookie(target, is_by_port),
        hostile_door_cookie=door_cookie(hostile, is_by_port),
        signed_in=signed_in,
        email=apps.victim.email,
        effects=lambda: len(apps.victim.tokens()),
        sessions=tuple(session["id"] for session in (apps.hostile, apps.target, apps.other)),
        is_by_port=is_by_port,
    )
    world.begin()
    yield world
    world.context.close()


def door_cookie(app: str, is_by_port: bool) -> str:
    return f"berth-app-{urllib.parse.urlsplit(app).port}" if is_by_port else "__Host-berth-app"


def app_origin(browser: Browser, portal: str, session: dict[str, Any], state: Any) -> str:
    """Where the person's browser ends up that opens the app from the portal."""
    context = browser.new_context(storage_state=state)
    page = context.new_page()
    page.goto(f"{portal}/apps/{session['id']}/p9000/")
    page.wait_for_function("document.title === 'app'", timeout=PATIENCE_MS)
    url = urllib.parse.urlsplit(page.url)
    context.close()
    return f"{url.scheme}://{url.netloc}"


def state_after_sign_in(browser: Browser, portal: str, person: Person) -> Any:
    context = browser.new_context(base_url=portal)
    page = context.new_page()
    page.goto("/")
    sign_in(page, person)
    state = context.storage_state()
    context.close()
    return state
