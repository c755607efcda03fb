"""Wrong requests are refused at their field, in one shape, without side effects."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from common.errors import Unavailable
from sessions_app.app_services.start import start_app
from sessions_app.models import ComputeSession
from tests.bad_input import BODIES, HALF, UNMET, UNREADABLE, Bad
from tests.doubles.runtimes import LostRuntime
from tests.factories import api_client
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place, make_place
from vfolders.models import VFolder

pytestmark = pytest.mark.django_db

SESSIONS = "/api/v1/sessions/"
ERROR_KEYS = {"code", "message", "hint", "fields"}
LARGEST_REFUSAL = 4_000


@pytest.fixture
def api(place: Place) -> APIClient:
    return api_client(place.owner)


def check(answer: Any, bad: Bad) -> None:
    refusal = answer.json()
    sentences = [sentence for field in refusal["fields"].values() for sentence in field]
    words = " ".join((refusal["message"], refusal["hint"], *sentences))
    assert (answer.status_code, refusal["code"]) == (bad.status, bad.code), refusal
    assert set(refusal) - {"limits", "allow_lists", "budgets"} == ERROR_KEYS
    assert bad.says in words
    assert len(answer.content) < LARGEST_REFUSAL
    assert not ComputeSession.objects.exists()


def is_at(bad: Bad, fields: dict[str, Any]) -> bool:
    """Whether the refusal stands where it belongs: too much of one resource is too much in all."""
    field = bad.field.encode(errors="replace").decode()
    is_inside = any(name.startswith(f"{field}.") for name in fields)
    return field in fields or is_inside or field.partition(".")[0] in fields


def test_every_wrong_value_is_refused_at_its_field(place: Place, api: APIClient, tmp_path: Path) -> None:
    make_storage_host(tmp_path)
    make_folder(place.owner, name="data")
    for bad in (*UNREADABLE, *UNMET):
        answer = api.generic("POST", SESSIONS, json.dumps(place.request(**bad.changes)), "application/json")
        check(answer, bad)
        is_text = HALF not in bad.says and "\ud800" not in str(bad.value)
        assert not is_text or "\u202e" in bad.field or is_at(bad, answer.json()["fields"]), bad


def test_a_body_that_is_no_request_is_refused(api: APIClient) -> None:
    wrong = {}
    for name, (body, says, status) in BODIES.items():
        answer = api.generic("POST", SESSIONS, body, content_type="application/json")
        refusal = answer.json()
        is_right = answer.status_code == status and set(refusal) == ERROR_KEYS and says in refusal["message"]
        if not is_right or len(answer.content) >= LARGEST_REFUSAL:
            wrong[name] = refusal
    assert wrong == {}


def test_many_names_in_one_body_cost_little(api: APIClient) -> None:
    body = json.dumps({f"field-{number}": number for number in range(90_000)})
    answer = api.generic("POST", SESSIONS, body, content_type="application/json")

    assert answer.status_code == 400
    assert len(answer.json()["fields"]) < 120


def test_every_wrong_field_is_named_at_once(place: Place, api: APIClient) -> None:
    wrong = place.request(name="a b", image="", type="x", resources={"cpu": 0, "mem": "12x"}, mounts=["data"])
    fields = api.post(SESSIONS, wrong).json()["fields"]

    assert set(fields) == {"name", "image", "type", "resources.cpu", "resources.mem", "mounts.0"}


def test_a_body_of_another_kind_is_refused(api: APIClient) -> None:
    kinds = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/xml")  # fmt: skip
    wrong = {}
    for path, kind in product(("sessions/", "folders/", "keypairs/"), kinds):
        answer = api.generic("POST", f"/api/v1/{path}", b"name=train", content_type=kind)
        refusal = answer.json()
        is_right = answer.status_code == 415 and set(refusal) == ERROR_KEYS
        if not is_right or "application/json" not in refusal["hint"]:
            wrong[path, kind] = refusal
    assert wrong == {}


def test_a_body_is_read_as_utf_8_whatever_its_type_says(place: Place, api: APIClient) -> None:
    for charset in ("zip", "utf-16", "latin-1"):
        answer = api.generic("POST", SESSIONS, b"{}", content_type=f"application/json; charset={charset}")
        assert answer.status_code == 400
        assert {"name", "project", "image"} <= set(answer.json()["fields"])


FOLDERS_AND_TOKENS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("folders/", {"name": "a", "nmae": "b"}, "nmae", "Did you mean “name”?"),
    ("folders/", {}, "name", "Say something here"),
    ("folders/", {"name": None}, "name", "Give text, not null"),
    ("folders/", {"name": 7}, "name", "Give text, not 7"),
    ("folders/", {"name": ""}, "name", "Say something here"),
    ("folders/", {"name": "x" * 10_000}, "name", "longer than"),
    ("folders/", {"name": "../x"}, "name", "must not contain a slash"),
    ("folders/", {"name": ".."}, "name", 'must not contain ".."'),
    ("folders/", {"name": "a\0"}, "name", "NUL"),
    ("folders/", {"name": "a\u202eb"}, "name", "characters that do not show"),
    ("folders/", {"name": "🚢"}, "name", "Use letters, digits"),
    ("folders/", {"name": "$(reboot)"}, "name", "Use letters, digits"),
    ("folders/", {"name": "a", "project": "absent"}, "project", "There is no project “absent”"),
    ("folders/", {"name": "a", "project": "\0"}, "project", "NUL"),
    ("folders/", {"name": "a", "project": "p" * 10_000}, "project", "At most 255 characters"),
    ("folders/", {"name": "a", "host": "absent"}, "host", "There is no storage host “absent”"),
    ("folders/", {"name": "a", "host": []}, "host", "Give text, not a list"),
    ("keypairs/", {}, "name", "Say something here"),
    ("keypairs/", {"name": "laptop", "secret": "x"}, "secret", "There is no such field"),
    ("keypairs/", {"name": "x" * 10_000}, "name", "At most 60 characters; these are 10,000"),
    ("keypairs/", {"name": "a\x1b[2Jb"}, "name", "do not show"),
    ("keypairs/", {"name": "a\u202eb"}, "name", "do not show"),
    ("keypairs/", {"name": "  "}, "name", "1 to 60 characters"),
    ("keypairs/", {"name": "a", "expires_at": "soon"}, "expires_at", "wrong format"),
    ("keypairs/", {"name": "a", "expires_at": "1999-01-01T00:00:00Z"}, "expires_at", "in the past"),
    ("keypairs/", {"name": "a", "expires_at": 10**30}, "expires_at", "wrong format"),
)


def test_wrong_fields_of_folders_and_tokens_are_named(api: APIClient, tmp_path: Path) -> None:
    make_storage_host(tmp_path)
    wrong = []
    for path, body, field, says in FOLDERS_AND_TOKENS:
        answer = api.post(f"/api/v1/{path}", body)
        told = answer.json().get("fields", {}).get(field, [""])[0]
        if answer.status_code not in {400, 404} or says not in told:
            wrong.append((path, body, answer.status_code, told))
    assert wrong == []
    assert not VFolder.objects.exists()


LISTS = ("sessions/", "folders/", "keypairs/", "projects/", "images/", "agents/", "resource-groups/")
PAGES: tuple[tuple[dict[str, str], int], ...] = (
    ({"page": "abc"}, 404),
    ({"page": "0"}, 404),
    ({"page": "-1"}, 404),
    ({"page": "9" * 400}, 404),
    ({"page": "9" * 5000}, 404),
    ({"page": "\u202e"}, 404),
    ({"page_size": "9" * 5000}, 200),
    ({"page_size": ""}, 400),
    ({"page": ""}, 404),
    ({"page_size": "0"}, 400),
    ({"page_size": "abc"}, 400),
    ({"page_size": "-1"}, 400),
    ({"page_size": "١"}, 400),
)


def test_a_page_that_is_not_there_is_said(api: APIClient) -> None:
    wrong = []
    for path, (query, status) in product(LISTS, PAGES):
        answer = api.get(f"/api/v1/{path}", query)
        is_said = (
            status == 200
            or (status == 404 and "There is no page “" in answer.json()["message"])
            or (status == 400 and "is no size of a page" in answer.json()["fields"]["page_size"][0])
        )
        if answer.status_code != status or not is_said or len(answer.content) >= LARGEST_REFUSAL:
            wrong.append((path, query, answer.status_code, answer.content))
    assert wrong == []


FILTERS: tuple[tuple[str, dict[str, str | list[str]]], ...] = (
    ("sessions/", {"status": "LOST"}),
    ("sessions/", {"type": "system"}),
    ("sessions/", {"name": "a\0"}),
    ("sessions/", {"project": "a\0"}),
    ("agents/", {"state": "a\0"}),
    ("agents/", {"resource_group__name": "a\0"}),
    ("images/", {"reference": "a\0"}),
    ("images/", {"architecture": "a\0"}),
    ("agents/", {"state": ""}),
    ("sessions/", {"status": ""}),
    ("sessions/", {"type": ""}),
    ("sessions/", {"array": ""}),
    ("budgets/", {"current": ""}),
    ("budgets/", {"current": "perhaps"}),
    ("budgets/", {"project": ""}),
    ("agents/", {"state": ["lost", "connected"]}),
    ("sessions/", {"name": ["a", "b"]}),
)


def test_a_wrong_filter_is_refused(api: APIClient) -> None:
    wrong = []
    for path, query in FILTERS:
        answer = api.get(f"/api/v1/{path}", query)
        if answer.status_code != 400 or set(answer.json()["fields"]) != set(query):
            wrong.append((path, query, answer.status_code, answer.content))
    assert wrong == []


def test_an_empty_text_and_several_states_are_right(place: Place, api: APIClient) -> None:
    place.enqueue()
    for query in ({"name": ""}, {"project": ""}, {"status": ["PENDING", "RUNNING"]}):
        assert api.get(SESSIONS, query).json()["count"] == 1, query


def test_a_group_that_has_room_is_named(place: Place, api: APIClient) -> None:
    large = make_place(cpu_milli=64_000)
    refusal = api.post(SESSIONS, place.request(resources={"cpu": 32, "mem": "1g"})).json()

    assert "The largest that fits is 8 cores" in refusal["hint"]
    assert f"“{large.group.name}” has a machine that is large enough" in refusal["hint"]


def test_machines_of_groups_that_one_may_not_use_do_not_count(place: Place, api: APIClient) -> None:
    large = make_place(cpu_milli=64_000)
    large.group.is_public = False
    large.group.save(update_fields=["is_public"])

    refusal = api.post(SESSIONS, place.request(resources={"cpu": 32, "mem": "1g"})).json()
    assert large.group.name not in refusal["hint"]


def test_an_engine_that_is_down_is_said_where_it_is_needed_and_nowhere_else(
    place: Place, api: APIClient
) -> None:
    lost = place.replace_runtime(lambda images: LostRuntime(name="lost", images=images))
    session = place.run()
    lost.is_lost = True

    submitted = api.post(SESSIONS, place.request())
    log = api.get(f"{SESSIONS}{session.pk}/logs/")
    with pytest.raises(Unavailable, match="did not start Board"):
        start_app(session.pk, "board")

    assert (submitted.status_code, submitted.json()["status"]) == (201, "PENDING")
    assert api.get(f"{SESSIONS}{session.pk}/").status_code == 200
    assert (log.status_code, log.json()["code"]) == (503, "unavailable")
    assert "does not answer" in log.json()["message"]
