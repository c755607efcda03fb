"""An impersonating administrator sees what the user sees, less private data, and changes nothing."""

from http.cookies import SimpleCookie
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.test import Client

from accounts.logins import impersonation
from accounts.models import User
from common.models import AuditEntry
from tests.access.matrix import BY_TOKEN_ALONE, OURS, PRIVATE, REST_ROWS, THIRD_PARTY, WAYS_OUT, Row
from tests.access.matrix_of_others import ADMIN_KINDS, ADMIN_MODELS
from tests.access.test_ended_logins import closing_code
from tests.access.test_matrix import METHODS, ROUTES, ask, word_for
from tests.access.world import World, sign_in
from tests.factories import actor_for, make_user
from tests.factories_sessions import make_place
from tests.ws.stage import PORTAL_HOST, gateway

pytestmark = [pytest.mark.walk, pytest.mark.timeout(600)]
UNSAFE = [method for method in METHODS if method != "GET"]


def look_as(person: User, viewer: User, **headers: str) -> Client:
    """A browser of `viewer` that shows the portal as `person` sees it."""
    cookie = sign_in(viewer)
    impersonation.start_impersonation(
        actor=actor_for(viewer), login_key=cookie, user_id=person.pk, reason="A question"
    )
    browser = Client(headers={"host": "localhost:8080", **headers})
    browser.cookies = SimpleCookie({settings.SESSION_COOKIE_NAME: cookie})
    return browser


def test_a_viewer_sees_what_the_owner_sees_less_what_is_private(world: World) -> None:
    browser = look_as(world.people["owner"], world.people["domain_admin"])
    rows = [row for row in OURS if row.method == "GET"]
    answers = {str(row): word_for(ask(world, row, "owner", client=browser)) for row in rows}
    assert answers == {str(row): seen_by_viewer(row) for row in rows}


def seen_by_viewer(row: Row) -> str:
    if row.route in BY_TOKEN_ALONE:  # nobody is a viewer by a token
        return row.cells["anonymous"]
    return "403" if row.route in PRIVATE else row.cells["owner"]


def test_how_somebody_signs_in_and_django_admin_are_no_viewers(world: World) -> None:
    browser = look_as(world.people["owner"], world.people["superadmin"])
    rows = [row for row in THIRD_PARTY if row.method == "GET" and row.route not in WAYS_OUT]
    answers = {str(row): ask(world, row, "owner", client=browser).status_code for row in rows}
    assert set(answers.values()) == {403}, {row for row, status in answers.items() if status != 403}


def test_no_route_takes_anything_from_a_viewer(world: World) -> None:
    short = {"HX-Request": "true"}  # refusals without the frame, which takes most of the time
    browser = look_as(world.people["owner"], world.people["domain_admin"], **short)
    bodies = {str(row): row for row in (*OURS, *THIRD_PARTY)}
    routes = sorted({row.route for row in (*OURS, *THIRD_PARTY)} - WAYS_OUT)
    rows = [bodies.get(f"{method} {name}", Row(method, name, {})) for name in routes for method in UNSAFE]
    refused = {str(row): refusal_of(ask(world, row, "owner", client=browser)) for row in rows}
    assert set(refused.values()) == {(403, True)}, {row for row in refused if refused[row] != (403, True)}
    assert {row.route for row in rows} | WAYS_OUT >= set(ROUTES) - {"", "admin:"} - admin_models()


def refusal_of(answer: Any) -> tuple[int, bool]:
    """(status, whether it says why)."""
    return answer.status_code, "Impersonation is read-only" in answer.content.decode()


def admin_models() -> set[str]:
    return {f"admin:{model}_{kind}" for model in ADMIN_MODELS for kind in ADMIN_KINDS}


def test_models_of_the_admin_are_no_viewers_either(world: World) -> None:
    browser = look_as(world.people["owner"], world.people["superadmin"])
    for model in ADMIN_MODELS:
        for method in METHODS:
            address = world.admin_address(model, "changelist")
            assert browser.generic(method, address).status_code == 403, (method, address)


def test_the_banner_is_on_every_page(world: World) -> None:
    browser = look_as(world.people["owner"], world.people["domain_admin"])
    pages = [row for row in OURS if row.method == "GET" and row not in REST_ROWS]
    for row in pages:
        answer = ask(world, row, "owner", client=browser)
        text = "" if answer.streaming else answer.content.decode()
        assert answer["Cache-Control"] == "no-store", row
        if "<html" in text:
            assert 'class="viewing-banner"' in text, row
    assert 'class="viewing-banner"' in browser.get("/no-such-page/").content.decode()


@pytest.mark.django_db(transaction=True)
async def test_no_terminal_opens_for_a_viewer_be_it_their_own_session() -> None:
    place = await sync_to_async(make_place)()
    session = await sync_to_async(place.run)()
    owner = place.owner
    await sync_to_async(User.objects.filter(pk=owner.pk).update)(role="domain_admin")
    colleague = await sync_to_async(make_colleague)(owner)
    browser_of_viewer = await sync_to_async(look_as)(
        colleague, await sync_to_async(User.objects.get)(pk=owner.pk)
    )
    cookie = browser_of_viewer.cookies[settings.SESSION_COOKIE_NAME].value
    async with gateway() as browser:
        browser.cookies = {PORTAL_HOST: {settings.SESSION_COOKIE_NAME: cookie}}
        assert await closing_code(browser, f"/ws/sessions/{session.pk}/terminal/") == "4403"
    line = await sync_to_async(AuditEntry.objects.get)(reason="only_looking")
    assert (line.actor_id, line.acted_as_id, line.via) == (owner.pk, colleague.pk, "websocket")


def make_colleague(user: User) -> User:
    return make_user(domain=user.domain)
