"""Requests of the library: credentials, retries, and unexpected answers."""

import httpx
import pytest

from berth import (
    Client,
    InvalidInput,
    NotFound,
    NotSignedIn,
    Refused,
    UnexpectedAnswer,
    Unreachable,
)
from tests.client.wires import TOKEN, client_on, page, refusal, session_row

ME = {
    "id": 1,
    "email": "a@berth.example",
    "name": "A",
    "role": "user",
    "domain": {"name": "default", "title": "D"},
    "colour": "blue",
}


def test_the_token_goes_with_each_request() -> None:
    client, wire = client_on(httpx.Response(200, json=ME))
    assert client.whoami().email == "a@berth.example"
    assert wire.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
    assert str(wire.requests[0].url) == "https://berth.test/api/v1/me/"


def test_fields_that_are_new_are_kept_and_others_typed() -> None:
    client, _ = client_on(httpx.Response(200, json=ME))
    person = client.whoami()
    assert person.raw["colour"] == "blue"
    assert person.domain.name == "default"


def test_limits_are_read_in_a_project_or_in_all() -> None:
    row = {"limit": "slots.cpu", "level": "user", "value": 4000, "used": 1000, "left": 3000, "asked": 1}
    client, wire = client_on(httpx.Response(200, json={"project": "lab", "limits": [row]}))
    assert [(one.limit, one.left) for one in client.limits(project="lab").limits] == [("slots.cpu", 3000)]
    client.limits()
    assert wire.paths == ["GET /api/v1/limits/?project=lab", "GET /api/v1/limits/"]


def test_an_answer_without_what_is_needed_is_no_berth() -> None:
    client, _ = client_on(httpx.Response(200, json={"id": "one"}))
    with pytest.raises(UnexpectedAnswer, match="id"):
        client.whoami()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'"x"', b""])
def test_what_is_no_json_is_no_berth(body: bytes) -> None:
    client, _ = client_on(httpx.Response(200, content=body))
    with pytest.raises(UnexpectedAnswer):
        client.whoami()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidInput),
        (401, NotSignedIn),
        (403, Refused),
        (404, NotFound),
        (409, Refused),
        (413, Refused),
        (422, Refused),
        (429, Refused),
        (500, UnexpectedAnswer),
        (503, Unreachable),
    ],
)
def test_refusals_are_sorted_by_what_one_can_do(
    status: int, kind: type[Exception], no_pauses: list[float]
) -> None:
    client, _ = client_on(refusal(status, "some_code", "It is so.", fields={"name": ["Too long."]}))
    with pytest.raises(kind) as caught:
        client.whoami()
    assert type(caught.value) is kind
    assert caught.value.args == ("It is so.",)
    assert caught.value.code == "some_code"  # type: ignore[attr-defined]
    assert caught.value.fields == {"name": ["Too long."]}  # type: ignore[attr-defined]


@pytest.mark.parametrize("status", [404, 500, 418])
def test_a_refusal_in_other_words_is_understood_too(status: int) -> None:
    client, _ = client_on(httpx.Response(status, text="<h1>nginx</h1>"))
    with pytest.raises((UnexpectedAnswer, Refused), match=r"berth\.test"):
        client.whoami()


def test_a_redirect_is_not_followed_with_the_token() -> None:
    client, wire = client_on(httpx.Response(301, headers={"Location": "https://elsewhere.test/"}))
    with pytest.raises(UnexpectedAnswer, match=r"elsewhere\.test"):
        client.whoami()
    assert len(wire.requests) == 1


def test_what_may_be_repeated_is_tried_again(no_pauses: list[float]) -> None:
    client, wire = client_on(
        httpx.ConnectError("refused"), httpx.ReadError("reset"), refusal(502), httpx.Response(200, json=ME)
    )
    client.whoami()
    assert len(wire.requests) == 4
    assert no_pauses == sorted(no_pauses)


def test_trying_again_has_an_end(no_pauses: list[float]) -> None:
    client, wire = client_on(httpx.ConnectError("refused"))
    with pytest.raises(Unreachable, match="refused"):
        client.whoami()
    assert len(wire.requests) == 4


def test_the_portal_says_when_to_come_back(no_pauses: list[float]) -> None:
    busy = httpx.Response(429, headers={"Retry-After": "3"}, json={})
    client, _ = client_on(busy, httpx.Response(200, json=ME))
    client.whoami()
    assert no_pauses == [3.0]


def test_a_certificate_that_is_not_trusted_is_not_asked_twice() -> None:
    client, wire = client_on(httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"))
    with pytest.raises(Unreachable, match="not to be trusted") as caught:
        client.whoami()
    assert "BERTH_CA_FILE" in caught.value.hint
    assert len(wire.requests) == 1


def test_a_new_session_is_asked_for_under_one_key_however_often(no_pauses: list[float]) -> None:
    still = refusal(409, "still_answering")
    client, wire = client_on(httpx.ReadError("reset"), still, httpx.Response(201, json=session_row()))
    client.sessions.start("berth/python:1", project="demo", command="true")
    keys = {request.headers["Idempotency-Key"] for request in wire.requests}
    assert len(wire.requests) == 3
    assert len(keys) == 1
    client.sessions.start("berth/python:1", project="demo")
    assert wire.requests[-1].headers["Idempotency-Key"] not in keys


def test_a_new_session_names_no_defaults_of_the_server() -> None:
    client, wire = client_on(httpx.Response(201, json=session_row()))
    client.sessions.start("berth/python:1", project="demo", name="a")
    needed = {"name", "project", "image", "type", "resources", "environment", "mounts"}
    assert wire.body().keys() == needed
    client.sessions.start("berth/python:1", project="demo", name="b", personal_files=False, requeues=True)
    assert wire.body().keys() == needed | {"personal_files", "requeues"}


def test_what_could_happen_twice_is_not_repeated(no_pauses: list[float]) -> None:
    client, wire = client_on(httpx.ReadError("reset"))
    with pytest.raises(Unreachable):
        client.call("POST", "keypairs/", json={"name": "a"})
    assert len(wire.requests) == 1
    client, wire = client_on(httpx.ConnectError("refused"), httpx.Response(201, json={}))
    client.call("POST", "keypairs/", json={"name": "a"})
    assert len(wire.requests) == 2


def test_a_conflict_is_not_tried_again() -> None:
    client, wire = client_on(refusal(409, "conflict", "It is mounted."))
    with pytest.raises(Refused, match="mounted"):
        client.call("DELETE", "folders/x/")
    assert len(wire.requests) == 1


def test_lists_are_fetched_page_by_page_as_far_as_wanted() -> None:
    client, wire = client_on(
        page({"id": 1, "name": "a"}, following="https://elsewhere.test/?page=2"), page({"id": 2, "name": "b"})
    )
    projects = client.projects()
    assert next(projects).name == "a"
    assert len(wire.requests) == 1
    assert [one.name for one in projects] == ["b"]
    assert wire.paths[-1] == "GET /api/v1/projects/?page=2&page_size=200"


@pytest.mark.parametrize("path", ["../../x", "a/../b", "./a", "a//b", ".."])
def test_paths_of_files_never_leave_their_folder(path: str) -> None:
    client, wire = client_on(httpx.Response(204))
    files = client.folders._one(httpx.Response(200, json={"id": "f", "name": "data"})).files
    with pytest.raises(InvalidInput):
        files.delete(path)
    assert wire.requests == []


def test_odd_names_of_files_arrive_as_they_are() -> None:
    client, wire = client_on(httpx.Response(200, json={}))
    files = client.folders._one(httpx.Response(200, json={"id": "f", "name": "data"})).files
    files.write("grüße/a b%20?#.txt", b"x")
    assert wire.paths == ["PUT /api/v1/folders/f/files/gr%C3%BC%C3%9Fe/a%20b%2520%3F%23.txt"]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://Berth.Example.com/", "https://berth.example.com"),
        ("https://berth.example.com/api/v1/", "https://berth.example.com"),
        ("berth.example.com", "https://berth.example.com"),
        ("localhost:8080", "http://localhost:8080"),
        ("http://10.0.0.1:8080/prefix/", "http://10.0.0.1:8080/prefix"),
    ],
)
def test_addresses_of_portals_are_brought_into_one_form(text: str, url: str) -> None:
    assert Client(text, TOKEN).url == url


@pytest.mark.parametrize(
    "text", ["ftp://x", "https://", "https://u:p@x", "https://x/?q", "x y", "https://x:99999", "\x1b[2J"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Client(text, TOKEN)
