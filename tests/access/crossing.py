"""Random requests across tenants: for objects of another domain, or of a project without membership.

Each is sent twice, once about what is there and hidden, once about what is absent. Both have to get the same answer: status,
headers and body, but for the names and ids that were asked for. Hidden things are called `hidden…` where absent ones are
called `absent…`, and ids have the same number of digits, so that nothing but what the portal knows can tell them apart.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, reset_queries
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.models import User
from tests import factories
from tests.access.matrix import OURS, REST_ROWS, Row
from tests.access.test_matrix import FLEETING, METHODS, OBJECT_PARAMETERS, ROUTES, shapes
from tests.access.world import BATCH, World, sign_in, undone

FIRST_ID, ABSENT_ID = 4_000_000, 4_900_000
# What programs and forms call things of others, and of what kind it is. Lists say so by the list around it.
REFERENCES: dict[str, Any] = {
    "project": "project",
    "projects": ["project"],
    "domain": "domain",
    "user": "email",
    "owner": "email",
    "actor": "email",
    "policy": "policy",
    "id": "user_id",
    "object_id": "session_id",
    "array": "array_id",
    "session": ["session_id"],
    "folder": ["folder_id"],
    "person": ["user_id"],
    "name": "session",
    "q": "project",
    "email": "email",
    "mounts": [{"folder": "folder"}],
    "depends_on": ["session"],
    "host": "host",
}
# An address has one account: who makes accounts, or changes addresses, learns that one is taken, and nothing else.
TELL_OF_ADDRESSES = {"api-users", "new-person", "api-user", "person", "api-invitations", "invitations"}
SAY_THE_SAME_TO_EVERYBODY = {"api-events", "api-schema", "api-reference", "api-health", "styleguide"}
# Ids and secrets of what was made, and the marks of forms that are sent once.
NEW = re.compile(r"\b4\d{6}\b|bk\w{16}(\.[\w-]+)?|\b[0-9a-f]{32}\b|(once/|berthcb_)[\w-]{43}")
REST_ROUTES = {row.route for row in REST_ROWS}
KEPT_HEADERS = ("Content-Type", "Location", "Allow", "WWW-Authenticate", "Cache-Control", "Vary")
LISTED_METHODS_SHARE, REFERENCE_SHARE, EMPTY_BODY_SHARE = 0.9, 0.7, 0.1

# Everybody reads the price list; that hidden groups are absent is in tests/db/agents/resource_groups/test_resource_groups.py.
HIDEABLE = OBJECT_PARAMETERS - {
    "price_id",
    "group_id",
    "grant_id",
    "tick_id",
    "reservation_id",
    "rule_id",
    "vendor_id",
    "storage_host_id",
    "device_id",
    "machine_invitation_id",
}


@dataclass(frozen=True, slots=True)
class Reference:
    """In place of a value: the kind of thing that it names."""

    kind: Any


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request with the kinds of things in place of their names and ids."""

    column: str
    method: str
    route: str
    path: Mapping[str, str]  # by parameter: "hidden" or "own"
    query: Mapping[str, Any]
    body: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.column}: {self.method} {self.route} {dict(self.path)} ?{dict(self.query)} {dict(self.body)}"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: str
    queries: Sequence[str]
    took_s: float

    def matches(self, other: "Answer") -> bool:
        return (self.status, self.headers, self.body) == (other.status, other.headers, other.body)


@dataclass(frozen=True, slots=True)
class Pair:
    attempt: Attempt
    hidden: Answer
    absent: Answer

    @property
    def leaks(self) -> bool:
        return not self.hidden.matches(self.absent)

    @property
    def ratio(self) -> float:
        return self.hidden.took_s / self.absent.took_s


@dataclass
class Crossing:
    """Everybody who may not see a thing, and what each cannot see."""

    world: World
    own: dict[str, dict[str, str]] = field(default_factory=dict)

    @cached_property
    def blind_to(self) -> dict[str, frozenset[str]]:
        """Kinds of things that are hidden from each. In one domain people see that domain, and members their project
        with its presets.
        """
        everything = frozenset(self.hidden)
        in_domain = everything - {"domain_id", "domain"}
        in_project = in_domain - {"project_id", "project", "preset_id"}
        return {
            "stranger": everything,
            "neighbour": everything,
            "outsider": in_domain,
            "member": in_project,
        }

    @cached_property
    def hidden(self) -> dict[str, str]:
        world, owner = self.world, self.world.place.owner
        return {
            "session_id": str(world.session.pk),
            "folder_id": str(world.folder.pk),
            "operation_id": str(world.file_operation.pk),
            "upload_id": str(world.upload.pk),
            "share_id": str(world.share.pk),
            "link_id": str(world.link.pk),
            "array_id": str(world.array.pk),
            "keypair_id": str(world.keypair.pk),
            "ssh_key_id": str(world.ssh_key.pk),
            "notification_id": str(world.notification.pk),
            "entry_id": str(world.entry.pk),
            "user_id": str(owner.pk),
            "scope_id": str(owner.pk),
            "project_id": str(world.place.project.pk),
            "domain_id": str(world.place.project.domain_id),
            "policy_id": str(world.policy.pk),
            "budget_id": str(world.budget.pk),
            "template_id": str(world.template.pk),
            "preset_id": str(world.preset.pk),
            "invitation_id": str(world.invitation.pk),
            "import_id": str(world.people_import.pk),
            "host": f"jupyter-{world.session.host_label}",
            **{kind: f"hidden-{kind}" for kind in ("project", "domain", "policy", "session", "folder")},
            "email": owner.email,
        }

    @cached_property
    def absent(self) -> dict[str, str]:
        found = {}
        for number, (kind, value) in enumerate(self.hidden.items()):
            if value.isdecimal():
                found[kind] = str(ABSENT_ID + number)
            elif kind.endswith("_id"):
                found[kind] = str(uuid4())
            else:
                found[kind] = value.replace("hidden", "absent")
        found["host"] = f"jupyter-{self._other_label()}"
        return found

    def _other_label(self) -> str:
        label = self.world.session.host_label
        return "".join("b" if letter == "a" else "a" if letter.isalpha() else letter for letter in label)

    def attempts(self, random: Random) -> Iterator[Attempt]:
        """Without end; the same for the same `random`."""
        rows: dict[str, list[Row]] = {}
        for row in OURS:
            if row.route not in SAY_THE_SAME_TO_EVERYBODY:
                rows.setdefault(row.route, []).append(row)
        routes = sorted(rows)
        while True:
            column = random.choice(sorted(self.blind_to))
            route = random.choice(routes)
            row = random.choice(rows[route])
            if random.random() > LISTED_METHODS_SHARE:
                row = replace(row, method=random.choice((*METHODS, "HEAD", "OPTIONS")))
            if attempt := self._attempt(random, column, row):
                yield attempt

    def _attempt(self, random: Random, column: str, row: Row) -> Attempt | None:
        """None where it would reach nothing that is hidden."""
        blind_to = self.blind_to[column]
        parameters = sorted(ROUTES[row.route].parameters & HIDEABLE)
        path = {name: "hidden" if name in blind_to else "own" for name in parameters}
        if len(path) > 1 and (name := random.choice(parameters)) in self.own[column]:
            path[name] = "own"
        if any(whose == "own" and name not in self.own[column] for name, whose in path.items()):
            return None
        query = self._references(random, blind_to, row.route, {})
        is_bare = random.random() < EMPTY_BODY_SHARE or row.method in {"GET", "HEAD", "DELETE"}
        body = {} if is_bare else self._references(random, blind_to, row.route, self.world.body(row.body))
        is_across = "hidden" in path.values() or any(map(_is_reference, (*query.values(), *body.values())))
        attempt = Attempt(column, row.method, row.route, path, {**self.world.query(row.query), **query}, body)
        return attempt if is_across else None

    def _references(
        self, random: Random, blind_to: frozenset[str], route: str, fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        """`fields`, some of which name something that is hidden."""
        known = {
            name: kind
            for name, kind in REFERENCES.items()
            if _kind_of(kind) in blind_to and not (name == "email" and route in TELL_OF_ADDRESSES)
        }
        chosen = [name for name in fields if name in known and random.random() < REFERENCE_SHARE]
        if random.random() < REFERENCE_SHARE:
            chosen.append(random.choice(sorted(known)))
        return {**fields, **{name: Reference(known[name]) for name in chosen}}

    def ask(self, attempt: Attempt, *, hidden_first: bool) -> Pair:
        """Both, one right after the other."""
        answers = {}
        for whose in ("hidden", "absent") if hidden_first else ("absent", "hidden"):
            answers[whose] = self._send(attempt, getattr(self, whose))
        return Pair(attempt, **answers)

    def _send(self, attempt: Attempt, things: Mapping[str, str]) -> Answer:
        own, parameters = self.own[attempt.column], ROUTES[attempt.route].parameters
        values = {
            name: things[name] if attempt.path[name] == "hidden" else own[name] for name in attempt.path
        }
        others = {"level": "user", "batch": BATCH, "path": "a.txt", "place": "data/a.txt", "app": "p8000", "provider": "absent", "code": "no", "link_code": "no",
                  "login_id": "no", "agent_id": "4899999", "image_id": "4899999", "announcement_id": "4899999",
                  "price_id": "4899999", "group_id": "4899999", "grant_id": "4899999", "tick_id": "4899999",
                  "reservation_id": "4899999", "rule_id": "4899999", "vendor_id": "4899999", "storage_host_id": "4899999",
                  "device_id": "4899999", "machine_invitation_id": "4899999", "machine": "absent", "vendor": "absent", "rule": "absent", "storage_kind": "absent"}  # fmt: skip
        address = reverse(attempt.route, kwargs={name: {**others, **values}[name] for name in parameters})
        query = urlencode(_filled(attempt.query, things), doseq=True)
        is_rest = attempt.route in REST_ROUTES
        client = (self.world.program if is_rest else self.world.browser)(attempt.column)
        reset_queries()  # Django keeps the last 9000
        with undone(self.world), CaptureQueriesContext(connection) as queries:
            began_at = time.perf_counter()
            answer = _sent(client, attempt, address, query, _filled(attempt.body, things), is_rest)
            content = b"".join(answer)
            took_s = time.perf_counter() - began_at
        return Answer(
            status=answer.status_code,
            headers={name: self._lasting(str(answer.headers.get(name, "")), things) for name in KEPT_HEADERS},
            body=self._lasting(content.decode(errors="replace"), things),
            queries=shapes(queries),
            took_s=took_s,
        )

    def _lasting(self, text: str, things: Mapping[str, str]) -> str:
        """Without what was asked for, and what differs from answer to answer."""
        if things is self.absent:
            for kind, value in things.items():
                text = text.replace(value, self.hidden[kind]).replace(quote(value), quote(self.hidden[kind]))
        return NEW.sub("", FLEETING.sub("", text))


def _is_reference(value: Any) -> bool:
    return isinstance(value, Reference)


def _kind_of(shape: Any) -> str:
    """Of "project", ["project"] or [{"folder": "folder"}]."""
    if isinstance(shape, list):
        return _kind_of(shape[0])
    return _kind_of(next(iter(shape.values()))) if isinstance(shape, dict) else str(shape)


def _filled(fields: Mapping[str, Any], things: Mapping[str, str]) -> dict[str, Any]:
    def fill(shape: Any) -> Any:
        if isinstance(shape, list):
            return [fill(each) for each in shape]
        return (
            {name: fill(each) for name, each in shape.items()} if isinstance(shape, dict) else things[shape]
        )

    return {
        name: fill(value.kind) if isinstance(value, Reference) else value for name, value in fields.items()
    }


def _sent(
    client: Client, attempt: Attempt, address: str, query: str, body: dict[str, Any], is_rest: bool
) -> HttpResponse:
    if attempt.method == "POST" and not is_rest:
        plain = {name: json.dumps(value) if _is_nested(value) else value for name, value in body.items()}
        for value in plain.values():
            if isinstance(value, SimpleUploadedFile):
                value.seek(0)  # the other one of the pair has read it
        return client.post(f"{address}?{query}", plain)
    text = json.dumps(body, default=str) if body else ""
    return client.generic(attempt.method, address, text, content_type="application/json", QUERY_STRING=query)


def _is_nested(value: Any) -> bool:
    """No value of a form."""
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_is_nested, value)))


def far_ids() -> None:
    """From here on ids have seven digits, which nothing else has that stands in an answer."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT sequencename FROM pg_sequences WHERE schemaname = current_schema()")
        for number, (name,) in enumerate(cursor.fetchall()):
            cursor.execute(f'ALTER SEQUENCE "{name}" RESTART WITH {FIRST_ID + 1000 * number}')


def make_crossing(world: World) -> Crossing:
    """In a world that was made after `far_ids`: its things get names that can be told apart, and the other domain gets a
    project and a person in it."""
    place = world.place
    project = place.project
    named = {"project": project, "domain": project.domain, "policy": world.policy, "session": world.session}
    for kind, row in {**named, "folder": world.folder}.items():
        type(row)._base_manager.filter(pk=row.pk).update(name=f"hidden-{kind}")
    User.objects.filter(pk=place.owner.pk).update(email="hidden@berth.example")
    for row in (*named.values(), world.folder, place.owner):
        row.refresh_from_db()

    stranger = world.people["stranger"]
    away = factories.make_project(stranger.domain)
    world.people["neighbour"] = factories.make_user(member_of=away)
    world.tokens["neighbour"] = factories.make_token(world.people["neighbour"])
    world.cookies["neighbour"] = sign_in(world.people["neighbour"])
    crossing = Crossing(world)
    for column, its in {"stranger": away, "neighbour": away, "outsider": None, "member": project}.items():
        person = world.people[column]
        known = {"user_id": str(person.pk), "scope_id": str(person.pk), "domain_id": str(person.domain_id)}
        crossing.own[column] = {**known, **({"project_id": str(its.pk)} if its else {})}
    return crossing
