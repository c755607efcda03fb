"""The OpenAPI document: complete, without warnings, and the committed copy is current.

After a change of the API, write the copy anew and read its diff:
    .venv/bin/python -m tests.manage spectacular --validate --fail-on-warn --file docs/openapi.yaml
"""

from pathlib import Path
from typing import Any

import pytest
from django.utils import translation
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiYamlRenderer
from drf_spectacular.validation import validate_schema

from portal.api.views import document_in
from tests.conftest import People
from tests.factories import api_client

COPY = Path(__file__).parents[3] / "docs" / "openapi.yaml"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    GENERATOR_STATS.reset()
    return dict(SchemaGenerator().get_schema(request=None, public=True))


def test_it_is_made_without_warnings_and_is_valid(document: dict[str, Any]) -> None:
    assert not GENERATOR_STATS
    validate_schema(document)


def test_the_committed_copy_is_current(document: dict[str, Any]) -> None:
    made = OpenApiYamlRenderer().render(document, renderer_context={}).decode()
    assert COPY.read_text() == made, "the first lines of this file say how to write it anew"


def test_operations_are_named_verb_first_and_once(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for operation in operations(document)]
    assert len(names) == len(set(names))
    verbs = (
        "list_",
        "accept_",
        "decline_",
        "leave_",
        "share_",
        "read_",
        "create_",
        "make_",
        "write_",
        "delete_",
        "stop_",
        "follow_",
        "check_",
        "change_",
        "close_",
        "reopen_",
        "purge_",
        "add_",
        "remove_",
        "assign_",
        "import_",
        "revoke_",
        "rotate_",
        "start_",
        "end_",
        "reset_",
        "mail_",
        "move_",
        "grant_",
        "extend_",
        "reserve_",
        "cancel_",
        "set_",
        "bring_",
        "partition_",
        "release_",
        "withhold_",
        "bring_",
        "update_",
        "clone_",
        "retry_",
        "restore_",
        "accept_",
        "append_",
        "count_",
        "decline_",
        "download_",
        "empty_",
        "leave_",
        "save_",
        "search_",
        "share_",
        "trash_",
    )
    assert [name for name in names if not name.startswith(verbs) and name not in {"health", "me"}] == []


def test_every_operation_says_what_it_does_and_who_may_call_it(document: dict[str, Any]) -> None:
    for operation in operations(document):
        is_open = operation["operationId"] == "health"
        assert is_open or operation["security"] == [{"token": []}, {"browser": []}]
        assert operation.get("description"), operation["operationId"]


@pytest.mark.django_db
def test_programs_get_the_document(people: People, document: dict[str, Any]) -> None:
    answer = api_client(people.member).get("/api/schema/")
    assert answer.status_code == 200
    assert answer.content == COPY.read_bytes()
    assert answer["Content-Type"] == "application/vnd.oai.openapi; charset=utf-8"
    as_json = api_client(people.member).get("/api/schema/", headers={"accept": "application/json"})
    assert as_json["Content-Type"] == "application/json"
    assert as_json.json()["paths"].keys() == document["paths"].keys()


def test_it_is_made_once_for_all_who_ask_in_a_language(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    document_in.cache_clear()
    made: list[str | None] = []
    make = SchemaGenerator.get_schema

    def make_and_note(generator: SchemaGenerator, **asked: Any) -> Any:
        made.append(translation.get_language())
        return make(generator, **asked)

    monkeypatch.setattr(SchemaGenerator, "get_schema", make_and_note)
    for person, language in ((people.member, "en"), (people.stranger, "en"), (people.member, "ko")):
        api_client(person).get("/api/schema/", {"lang": language})
    assert made == ["en", "ko"]


def operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for methods in document["paths"].values() for operation in methods.values()]
