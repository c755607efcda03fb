"""REST answers any request as the OpenAPI document says: no 5xx, no undocumented answer.

schemathesis makes the requests from the document, right ones and wrong ones; they reach the portal in this process, and
nothing stays of what they did. The same requests each time, others in each run of `bin/test --all`; no memory of
earlier runs.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import checks
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation

from tests.access.world import World, undone
from tests.width import IS_WIDE

pytestmark = [
    pytest.mark.walk,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),
]

# How many requests of each kind to each operation. Most of what a person of another role is told comes from the same code.
RIGHT = {
    "anonymous": 4,
    "owner": 6,
    "project_admin": 2,
    "domain_admin": 4,
    "superadmin": 6,
    "monitor": 2,
    "reader": 2,
    "expired": 1,
}
# Of those of whom little is refused before it is read.
WRONG = {"owner": 6, "domain_admin": 4, "superadmin": 6}
ABSENT = {"owner": 6}
# Says which requests. Without it the words of the function below would, and any change of them would make others.
USUAL_SEED = (
    0xC237297D52022F61E9AD4EF50F8C560830284F1C8D0735C0364200E3C411DE75BB6C59FE7D1567746D384EBD22FAAEED
)
SEED = secrets.randbits(384) if IS_WIDE else USUAL_SEED
PARTS = 2  # of the operations, for machines with several processors
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]
WITHOUT_END = {"follow_events"}
OPEN_OPERATIONS = {"health"}
FIXED = settings(
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@schemathesis.serializer("application/x-tar")
def tar(context: Any, value: Any) -> dict[str, Any]:
    """Bytes as they are: no archive, mostly."""
    return {"data": getattr(value, "data", str(value).encode())}


@schemathesis.serializer("application/offset+octet-stream")
def part_of_upload(context: Any, value: Any) -> dict[str, Any]:
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


@pytest.mark.parametrize("part", range(PARTS))
def test_rest_answers_right_requests_as_its_document_says(
    world: World, operations: list[APIOperation], part: int
) -> None:
    ask = Asker(world, GenerationMode.POSITIVE, RIGHT)
    for operation in operations[part::PARTS]:
        ask(operation, things_of(world, operation))
    assert set(ask.answers) == set(RIGHT)
    for operation, answers in ask.answers["expired"].items():
        assert answers == {200 if operation in OPEN_OPERATIONS else 401}, operation


@pytest.mark.parametrize("part", range(PARTS))
def test_rest_answers_wrong_requests_as_its_document_says(
    world: World, operations: list[APIOperation], part: int
) -> None:
    ask = Asker(world, GenerationMode.NEGATIVE, WRONG)
    for operation in operations[part::PARTS]:
        ask(operation, things_of(world, operation))
    assert set(ask.answers) == set(WRONG)


def test_rest_answers_about_what_is_absent_as_its_document_says(
    world: World, operations: list[APIOperation]
) -> None:
    ask = Asker(world, GenerationMode.POSITIVE, ABSENT)
    for operation in operations:
        if things_of(world, operation):
            ask(operation, {})
    assert set(ask.answers) == set(ABSENT)


def things_of(world: World, operation: APIOperation) -> dict[str, str]:
    """What the operation is about, of what there is."""
    there = {
        "folder_id": world.folder.pk,
        "session_id": world.session.pk,
        "keypair_id": world.keypair.pk,
        "ssh_key_id": world.ssh_key.pk,
        "user_id": world.people["member"].pk,
        "project_id": world.place.project.pk,
        "domain_id": world.place.project.domain_id,
        "policy_id": world.policy.pk,
        "group_id": world.place.group.pk,
        "grant_id": world.grant.pk,
        "budget_id": world.budget.pk,
        "invitation_id": world.invitation.pk,
        "import_id": world.people_import.pk,
        "notification_id": world.notification.pk,
    }
    names = {parameter.name for parameter in operation.path_parameters} & set(there)
    return {name: str(there[name]) for name in names}


@dataclass(slots=True)
class Asker:
    """Sends what the document allows, or forbids, to one operation after the other. To make a request takes as long as to answer
    it, so that each is made once and sent by everybody who has not yet sent as many as are theirs."""

    world: World
    mode: GenerationMode
    examples: dict[str, int]
    answers: dict[str, dict[str, set[int]]] = field(default_factory=dict)  # by column and operation

    def __call__(self, operation: APIOperation, things: dict[str, str]) -> None:
        made = 0

        @seed(SEED)
        @settings(FIXED, max_examples=max(self.examples.values()))
        @given(operation.as_strategy(generation_mode=self.mode, path_parameters=things or None))
        def check(case: Any) -> None:
            nonlocal made
            made += 1
            if is_stream(case):
                return
            for column in (column for column, most in self.examples.items() if made <= most):
                self._send(case, column)

        try:
            check()
        except Unsatisfiable:
            assert self.mode is GenerationMode.NEGATIVE  # there is nothing to do wrong
        else:
            assert made

    def _send(self, case: Any, column: str) -> None:
        token = self.world.tokens.get(column, "")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with undone(self.world):
            try:
                answer = case.call_and_validate(headers=headers, checks=CHECKS)
            except BaseException as error:
                error.add_note(f"asked by: {column}; seed {SEED:#x}")
                raise
        operation = case.operation.definition.raw["operationId"]
        self.answers.setdefault(column, {}).setdefault(operation, set()).add(answer.status_code)


def is_stream(case: Any) -> bool:
    """Streams need an event loop and have tests of their own."""
    return str((case.query or {}).get("follow", "")).lower() in {"1", "true"}
