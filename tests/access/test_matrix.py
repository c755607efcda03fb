"""The portal's real routes answer as the access matrix says, and the matrix has a row for each."""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.db import connection, reset_queries
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, get_resolver

from accounts.api.permissions import TokenPermission
from common.token_scopes import EVERY_TOKEN, SAFE_METHODS, TokenScope, sufficient_scopes
from tests.access import matrix
from tests.access.matrix import (
    COLUMNS,
    OURS,
    REST_ROWS,
    SIGN_IN,
    THIRD_PARTY,
    TOKEN_COLUMNS,
    Row,
    parse,
)
from tests.access.matrix_of_others import ADMIN_KINDS, ADMIN_MODELS
from tests.access.world import World, undone

# Some thousand requests each, and the machine may be busy.
pytestmark = [pytest.mark.walk, pytest.mark.timeout(600)]

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
EMPTY_TAR = bytes(1024)
# A token of any scope may end or rotate itself, and nothing else that changes something.
EVERY_SCOPE_FOR = {
    ("DELETE", "api-keypair"): EVERY_TOKEN,
    ("POST", "api-keypair-rotate"): EVERY_TOKEN,
    **{("PROPFIND", route): EVERY_TOKEN for route in matrix.BY_TOKEN_ALONE},  # reads
}
OBJECT_PARAMETERS = {
    "entry_id", "notification_id", "session_id", "folder_id", "keypair_id", "ssh_key_id", "user_id", "project_id", "domain_id",
    "policy_id", "scope_id", "budget_id", "price_id",
    "invitation_id",
    "import_id",
    "group_id",
    "grant_id",
    "tick_id",
    "template_id",
    "preset_id",
    "array_id",
    "reservation_id",
    "rule_id",
    "vendor_id",
    "storage_host_id",
    "operation_id",
    "upload_id",
    "share_id",
    "link_id",
}  # fmt: skip
SEES_FOLDER = next(row.cells for row in REST_ROWS if str(row) == "GET api-folder")
FRAGMENTS = {"expected-starts", "notifications-bell", "session-summary"}
INLINE = re.compile(r"""<script(?![^>]*\bsrc=)[^>]*>|<[^>]+\s(?:style|on[a-z]+)=["']|<style|javascript:""")
# Differ from answer to answer: request ids, nonces, tokens against forgery, ids in addresses, and the page's own
# address, which goes with forms.
FLEETING = re.compile(
    r'nonce="[^"]*"|name="back" value="[^"]*"|data-events-after="[^"]*"|name="csrf[^>]*>|\b[0-9a-f]{12}\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'
)


VALUES = re.compile(r"'[^']*'(::\w+)?|\b\d+\b|\"s\d+_x\d+\"|\"_django_curs_\w+\"")


@dataclass(frozen=True, slots=True)
class Route:
    name: str
    parameters: frozenset[str]


def routes(
    resolver: URLResolver, namespace: str = "", before: frozenset[str] = frozenset()
) -> Iterator[Route]:
    for entry in resolver.url_patterns:
        parameters = before | parameters_of(entry)
        if isinstance(entry, URLResolver):
            yield from routes(entry, f"{entry.namespace}:" if entry.namespace else namespace, parameters)
        else:
            yield Route(f"{namespace}{entry.name or ''}", parameters)


def parameters_of(entry: URLPattern | URLResolver) -> frozenset[str]:
    return frozenset(entry.pattern.converters) | frozenset(entry.pattern.regex.groupindex)


ROUTES = {route.name: route for route in routes(get_resolver())}
REST_ROUTES = {row.route for row in REST_ROWS}


def ask(
    world: World,
    row: Row,
    column: str,
    *,
    client: Client | None = None,
    absent: Collection[str] = frozenset(),
    without_slash: bool = False,
) -> HttpResponse:
    """Return the answer to the request of this row; nothing stays of what it did."""
    parameters = ROUTES[row.route].parameters
    address = world.address(row.route, parameters, absent=absent)
    address = address.removesuffix("/") if without_slash else address
    with undone(world, needs_file=not parameters.isdisjoint({"folder_id", "place", "link_code"})):
        if client is None:
            client = world.program(column) if row.route in REST_ROUTES else world.browser(column)
        return send(client, row, address, world)


def send(client: Client, row: Row, address: str, world: World) -> HttpResponse:
    query, body = world.query(row.query), world.body(row.body)
    if row.method == "GET":
        return client.get(address, query)
    if row.method == "PUT" and row.body in {"", "tar"}:
        content = EMPTY_TAR if row.body == "tar" else b"x"
        kind = "application/octet-stream"
        return client.generic("PUT", address, content, content_type=kind, QUERY_STRING=urlencode(query))
    if row.method in {"POST", "PUT", "PATCH"} and row.route in REST_ROUTES:
        text, kind = json.dumps(body), "application/json"
        return client.generic(row.method, address, text, content_type=kind, QUERY_STRING=urlencode(query))
    if row.method == "POST":
        return client.post(address, body, query_params=query)
    return client.generic(row.method, address, content_type="application/json", QUERY_STRING=urlencode(query))


def word_for(answer: HttpResponse) -> str:
    is_to_sign_in = answer.status_code == 302 and "/login/" in answer["Location"]
    return SIGN_IN if is_to_sign_in else str(answer.status_code)


def rest_views() -> Iterator[tuple[str, Any]]:
    """(name, class) of everything that the framework of REST answers."""
    for entry in patterns(get_resolver()):
        if view := getattr(entry.callback, "cls", None):
            yield entry.name or "", view


def patterns(resolver: URLResolver) -> Iterator[URLPattern]:
    for entry in resolver.url_patterns:
        if isinstance(entry, URLResolver):
            yield from patterns(entry)
        else:
            yield entry


def test_every_route_has_a_row() -> None:
    listed = {row.route for row in (*OURS, *THIRD_PARTY)}
    listed |= {f"admin:{model}_{kind}" for model in ADMIN_MODELS for kind in ADMIN_KINDS}
    # Old addresses of objects, and what is not there: both after the check of the admin site. Old addresses of allauth
    # that lead to those of today.
    nameless = {"admin:", ""}
    assert set(ROUTES) - nameless == listed


def test_every_row_is_there_once_and_names_a_route() -> None:
    rows = [str(row) for row in (*OURS, *THIRD_PARTY)]
    assert len(rows) == len(set(rows))
    assert all(row.route in ROUTES and row.method in METHODS for row in (*OURS, *THIRD_PARTY))


def test_an_unfilled_column_is_an_error() -> None:
    with pytest.raises(ValueError, match="Fill all"):
        parse("GET start in 200")


def test_what_lacks_the_last_slash_of_its_address_is_done_and_never_led_elsewhere(world: World) -> None:
    rows = [
        row
        for row in (*OURS, *THIRD_PARTY)
        if (row.method != "GET" or row.route in REST_ROUTES)
        and world.address(row.route, ROUTES[row.route].parameters).endswith("/")
    ]
    answers = {str(row): word_for(ask(world, row, "superadmin", without_slash=True)) for row in rows}
    assert len(rows) > 250
    assert answers == {str(row): row.cells["superadmin"] for row in rows}


@pytest.mark.parametrize("table", ["PAGES", "REST", "DAV", "ACCOUNT", "ADMIN"])
def test_every_cell_of_the_matrix(world: World, table: str) -> None:
    """Ask everything as everybody, once, for three promises: the answer is that of the matrix, a page is whole, and what
    is hidden answers like what is absent."""
    rows = parse(getattr(matrix, table))
    answers: dict[str, dict[str, str]] = {str(row): {} for row in rows}
    misshapen: list[str] = []
    told_apart: list[str] = []
    for row in rows:
        for column in COLUMNS:
            reset_queries()  # Django keeps the last 9000 of a test
            with CaptureQueriesContext(connection) as queries:
                answer = ask(world, row, column)
            answers[str(row)][column] = word_for(answer)
            misshapen += [f"{row} {column}: {fault}" for fault in faults_of_page(row, answer)]
            if hides(row, column) and differs_from_absent(world, row, column, answer, queries):
                told_apart.append(f"{row} {column}")
    assert answers == {str(row): row.cells for row in rows}
    assert misshapen == []
    assert told_apart == []


def faults_of_page(row: Row, answer: HttpResponse) -> list[str]:
    """Return what a page lacks: one heading, a title, no code in it. Nothing for what is no page of ours."""
    is_page = row.method == "GET" and answer.status_code in {200, 404}
    if not is_page or row.route.startswith("admin:") or row.route in FRAGMENTS:
        return []
    if "text/html" not in answer["Content-Type"]:
        return []
    text = answer.content.decode()
    found = {
        "not one heading": len(re.findall(r"<h1[ >]", text)) == 1,
        "no title": re.search(r"<title>\s*[^\s·<][^<]*· Berth\s*</title>", text),
        "code inside": not INLINE.findall(text),
        "a policy that allows it": "unsafe" not in answer["Content-Security-Policy"],
    }
    return [fault for fault, is_right in found.items() if not is_right]


def hides(row: Row, column: str) -> bool:
    return row.cells[column] == "404" and bool(ROUTES[row.route].parameters & OBJECT_PARAMETERS)


def hidden_parameters(row: Row, column: str) -> frozenset[str]:
    """Return what names something hidden in the address: what is in a folder may be hidden from who sees the folder."""
    parameters = ROUTES[row.route].parameters
    is_in_seen_folder = SEES_FOLDER[column] == "200" and bool(parameters & OBJECT_PARAMETERS - {"folder_id"})
    return parameters - {"folder_id"} if is_in_seen_folder else parameters


def differs_from_absent(
    world: World, row: Row, column: str, hidden: HttpResponse, of_hidden: CaptureQueriesContext
) -> bool:
    """Return True if the answer or the statements tell whether the object is there; these also say how long it takes."""
    with CaptureQueriesContext(connection) as of_absent:
        absent = ask(world, row, column, absent=hidden_parameters(row, column))
    return lasting(hidden) != lasting(absent) or shapes(of_hidden) != shapes(of_absent)


def test_programs_get_the_answer_of_the_matrix(world: World) -> None:
    answers = {
        str(row): {column: word_for(ask(world, row, column)) for column in TOKEN_COLUMNS} for row in REST_ROWS
    }
    assert answers == {str(row): {column: row.cells[column] for column in TOKEN_COLUMNS} for row in REST_ROWS}


def test_a_token_opens_no_page(world: World) -> None:
    rows = parse(matrix.PAGES)
    program = Client(headers={"authorization": f"Bearer {world.tokens['superadmin']}"})
    answers = {str(row): word_for(ask(world, row, "anonymous", client=program)) for row in rows}
    assert answers == {str(row): row.cells["anonymous"] for row in rows}


def test_every_route_of_rest_says_what_scopes_open_it() -> None:
    """A view that says nothing lets no token in; this finds it before its first user does."""
    for name, view in rest_views():
        if not view.authentication_classes:
            assert name in matrix.OPEN_TO_EVERYBODY
            continue
        assert TokenPermission in view.permission_classes, name
        for method in view().allowed_methods:
            assert sufficient_scopes(view, method), f"{method} {name} declares no token_scopes"
            if method not in SAFE_METHODS:
                assert TokenScope.READ not in sufficient_scopes(view, method) - EVERY_SCOPE_FOR.get(
                    (method, name), frozenset()
                ), f"{method} {name} is open to tokens that only read"


def test_rest_answers_a_browser_that_is_signed_in_like_a_token(world: World) -> None:
    rows = [row for row in REST_ROWS if row.route not in matrix.BY_TOKEN_ALONE]
    cells = [(row, column) for row in rows for column in ("owner", "stranger")]
    answers = {
        f"{row} {column}": word_for(ask(world, row, column, client=world.browser(column)))
        for row, column in cells
    }
    assert answers == {f"{row} {column}": row.cells[column] for row, column in cells}


def test_a_method_without_a_row_is_not_there(world: World) -> None:
    listed = {str(row) for row in OURS}
    unlisted = [
        row
        for name in sorted({row.route for row in OURS})
        for method in METHODS
        if str(row := Row(method, name, {})) not in listed
    ]
    answers = {str(row): ask(world, row, "superadmin").status_code for row in unlisted}
    assert set(answers.values()) == {405}, {row for row, status in answers.items() if status != 405}


def test_a_browser_changes_nothing_without_its_token_against_forgery(world: World) -> None:
    careful = Client(enforce_csrf_checks=True)
    careful.cookies = world.browser("owner").cookies
    unsafe = [row for row in OURS if row.method != "GET" and row.route not in matrix.BY_TOKEN_ALONE]
    answers = {str(row): ask(world, row, "owner", client=careful).status_code for row in unsafe}
    assert set(answers.values()) == {403}, answers


def test_models_in_the_admin_are_for_superadmins_within_limits(world: World) -> None:
    for model, allowed in ADMIN_MODELS.items():
        for kind in ADMIN_KINDS:
            address = world.admin_address(model, kind)
            for column in ("anonymous", "domain_admin"):
                with undone(world):
                    assert word_for(world.browser(column).get(address)) == SIGN_IN, address
            with undone(world):
                answer = world.browser("superadmin").generic("POST" if kind == "change" else "GET", address)
            is_allowed = kind in {"changelist", "history"} | allowed
            assert answer.status_code in ({200, 302} if is_allowed else {403}), address


def test_every_model_of_the_admin_is_limited() -> None:
    registered = {model._meta.label_lower.replace(".", "_") for model in admin.site._registry}
    assert registered == set(ADMIN_MODELS)


def shapes(queries: CaptureQueriesContext) -> list[str]:
    """Return the statements that were sent to the database, without their values."""
    return [VALUES.sub("?", query["sql"]) for query in queries.captured_queries]


def lasting(answer: HttpResponse) -> tuple[int, str, set[str]]:
    """Return status, body and names of headers, without what differs from answer to answer."""
    return answer.status_code, FLEETING.sub("", answer.content.decode()), set(answer.headers)
