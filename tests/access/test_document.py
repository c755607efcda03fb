"""REST answers as its OpenAPI document says, to whatever is sent: no 5xx, and no answer that is not written down.

schemathesis makes the requests from the document, right ones and wrong ones; they reach the portal in this process, and
nothing stays of what they did. The same requests each time: no seed, no memory of earlier runs.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import checks
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation

from tests.access.world import World, undone

EXAMPLES = 6
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]
WITHOUT_END = {"follow_events"}
FIXED = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@schemathesis.serializer("application/x-tar")
def tar(context: Any, value: Any) -> dict[str, Any]:
    """Bytes as they are: no archive, mostly."""
    return {"data": getattr(value, "data", str(value).encode())}


@pytest.fixture(scope="module")
def operations() -> list[APIOperation]:
    schema = schemathesis.openapi.from_dict(SchemaGenerator().get_schema(request=None, public=True))
    schema.app = get_wsgi_application()
    schema.config.generation.with_security_parameters = False  # who asks is said below
    found = [result.ok() for result in schema.get_all_operations()]
    return [each for each in found if each.definition.raw["operationId"] not in WITHOUT_END]


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    """Between requests the portal would close the connection, and with it the transaction of the test."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("column", ["anonymous", "owner", "superadmin"])
def test_rest_answers_as_its_document_says(world: World, operations: list[APIOperation], column: str) -> None:
    """Right requests of everybody about things that are there; wrong ones, and absent things, of the owner."""
    headers = {"Authorization": f"Bearer {world.tokens[column]}"} if column in world.tokens else {}
    asked = 0
    for operation in operations:
        things = things_of(world, operation)
        asked += ask(world, operation, GenerationMode.POSITIVE, things, headers)
        if column == "owner":
            asked += ask(world, operation, GenerationMode.NEGATIVE, things, headers)
            asked += ask(world, operation, GenerationMode.POSITIVE, {}, headers) if things else 0
    assert asked > len(operations)


def things_of(world: World, operation: APIOperation) -> dict[str, str]:
    """What the operation is about, of what there is."""
    there = {
        "folder_id": world.folder.pk,
        "session_id": world.session.pk,
        "keypair_id": world.keypair.pk,
        "user_id": world.people["member"].pk,
        "project_id": world.place.project.pk,
        "domain_id": world.place.project.domain_id,
    }
    names = {parameter.name for parameter in operation.path_parameters} & set(there)
    return {name: str(there[name]) for name in names}


def ask(
    world: World,
    operation: APIOperation,
    mode: GenerationMode,
    things: dict[str, str],
    headers: dict[str, str],
) -> int:
    """Send what the document allows, or forbids, to one operation. How many requests it was."""
    asked = 0

    @FIXED
    @given(operation.as_strategy(generation_mode=mode, path_parameters=things or None))
    def check(case: Any) -> None:
        nonlocal asked
        asked += 1
        if is_stream(case):
            return
        with undone(world):
            case.call_and_validate(headers=headers, checks=CHECKS)

    try:
        check()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # there is nothing to do wrong
    return asked


def is_stream(case: Any) -> bool:
    """Streams need an event loop and have tests of their own."""
    return str((case.query or {}).get("follow", "")).lower() in {"1", "true"}
