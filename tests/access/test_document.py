"""REST answers as its OpenAPI document says, to whatever is sent: no 5xx, and no answer that is not written down.

schemathesis makes the requests from the document, right ones and wrong ones; they reach the portal in this process, and
nothing stays of what they did. The same requests each time: no seed, no memory of earlier runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
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

from tests.access.matrix import OPEN_TO_EVERYBODY
from tests.access.world import World, undone

# Requests of each kind to each operation. Most of what a person of another role is told comes from the same code.
EXAMPLES = {"anonymous": 4, "owner": 6, "superadmin": 6, "domain_admin": 4, "expired": 1}
FEWEST = 2
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


@pytest.mark.walk
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "column",
    ["anonymous", "owner", "project_admin", "domain_admin", "superadmin", "monitor", "reader", "expired"],
)
def test_rest_answers_as_its_document_says(world: World, operations: list[APIOperation], column: str) -> None:
    """Right requests of everybody about things that are there; wrong ones of the owner and of administrators, of whom
    little is refused before it is read; absent things of the owner."""
    ask = Asker(world, world.tokens.get(column, ""), EXAMPLES.get(column, FEWEST))
    for operation in operations:
        things = things_of(world, operation)
        ask(operation, GenerationMode.POSITIVE, things)
        if column in {"owner", "domain_admin", "superadmin"}:
            ask(operation, GenerationMode.NEGATIVE, things)
        if column == "owner" and things:
            ask(operation, GenerationMode.POSITIVE, {})
    assert ask.asked >= len(operations)
    if column == "expired":
        assert ask.answers == {401} | ({200} if OPEN_TO_EVERYBODY else set())


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
    """Sends what the document allows, or forbids, to one operation after the other, with one token."""

    world: World
    token: str
    examples: int
    asked: int = 0
    answers: set[int] = field(default_factory=set)

    def __call__(self, operation: APIOperation, mode: GenerationMode, things: dict[str, str]) -> None:
        @settings(FIXED, max_examples=self.examples)
        @given(operation.as_strategy(generation_mode=mode, path_parameters=things or None))
        def check(case: Any) -> None:
            self.asked += 1
            if is_stream(case):
                return
            with undone(self.world):
                answer = case.call_and_validate(headers=self.headers, checks=CHECKS)
            self.answers.add(answer.status_code)

        try:
            check()
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE  # there is nothing to do wrong

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def is_stream(case: Any) -> bool:
    """Streams need an event loop and have tests of their own."""
    return str((case.query or {}).get("follow", "")).lower() in {"1", "true"}
