"""Whoever changes what a request was judged by, between that and its writing, is noticed; whoever changes anything else is not."""

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from accounts.models import KeyPair, Membership
from agents.models import ResourceGroup
from common import clock
from common.errors import BerthError
from common.prepared import _numbered
from common.scopes import TokenScope
from images.models import ContainerImage, Registry
from sessions_app import asked, services, tasks
from sessions_app.models import ComputeSession, TermsChange
from sessions_app.terms import HAVE_CHANGED, KEPT_FOR, SEEN
from tests import factories
from tests.db.test_asked import asked_of
from tests.elsewhere import elsewhere
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place

Change = Callable[[Place], object]
# What is true of a moment, and changes again and again: it is looked at when sessions are placed, or by the database.
OF_THE_MOMENT = {
    "accounts_budget", "accounts_limituse", "agents_agent", "agents_agentimage", "agents_agentslot",
}  # fmt: skip

LEFT_BY_TICKS = {("agents_resourcegroup", "epoch"), ("agents_resourcegroup", "last_agent_id")}


@pytest.fixture
def place(db: None) -> Place:
    return make_place()


def close_project(place: Place) -> None:
    type(place.project).objects.filter(pk=place.project.pk).update(is_active=False)


def close_domain(place: Place) -> None:
    type(place.project.domain).objects.filter(pk=place.project.domain_id).update(is_active=False)


def end_membership(place: Place) -> None:
    Membership.objects.filter(user=place.owner).delete()


def close_group(place: Place) -> None:
    ResourceGroup.objects.filter(pk=place.group.pk).update(is_public=False)


def delete_group(place: Place) -> None:
    deleted = {"deleted_at": clock.now(), "is_active": False, "is_default": False}
    ResourceGroup.objects.filter(pk=place.group.pk).update(**deleted)


def take_no_such_type(place: Place) -> None:
    ResourceGroup.objects.filter(pk=place.group.pk).update(session_types=["batch"])


def allow_another_image(place: Place) -> None:
    limit(place.owner, allowed_images=["another:*"])


def relations_of(statement: str) -> set[str]:
    """Tables that a statement reads."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {statement}".replace("%", "%%"))
        return set(_relations(cursor.fetchone()[0]))


def _relations(plan: Any) -> Iterator[str]:
    if isinstance(plan, dict):
        if "Relation Name" in plan:
            yield plan["Relation Name"]
        plan = list(plan.values())
    if isinstance(plan, list):
        for each in plan:
            yield from _relations(each)


def watched() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT event_object_table FROM information_schema.triggers WHERE trigger_name = 'berth_note_terms'"
        )
        return {table for (table,) in cursor.fetchall()}


def test_every_table_that_a_request_is_judged_by_is_watched(place: Place) -> None:
    read: set[str] = set()
    for answers in range(8):
        statement = asked._statement(bool(answers & 1), bool(answers & 2), bool(answers & 4))
        read |= relations_of(_numbered(statement)[0])
    assert read == watched() | OF_THE_MOMENT


def test_every_column_that_a_request_is_judged_by_is_watched(place: Place) -> None:
    """Each column of each row that could be read is given other values: where the answer is another then, it was noted."""
    limit(place.owner, max_sessions=3)
    registry = Registry.objects.create(name="r", host="r.example", url="https://r.example")
    ContainerImage.objects.update(registry=registry)
    keypair = KeyPair.objects.create(
        user=place.owner,
        name="k",
        access_key="a",
        secret_hash="h",
        scopes=[scope.value for scope in TokenScope],
    )
    limit(keypair, max_sessions=3)
    mattered = {
        each for each in changes() if each[:2] not in LEFT_BY_TICKS and is_noticed(place, keypair, *each)
    }
    assert {table for table, *_ in mattered} == watched() - {
        "agents_groupgrant"
    }  # which a public group needs not
    assert len(mattered) > 50


def changes() -> Iterator[tuple[str, str, str]]:
    others = {
        "boolean": ["NOT {}"], "jsonb": ["'{{}}'", "'[]'", "'{{\"cpu\": \"1\"}}'"], "ARRAY": ["'{{}}'"], "bytea": ["'x'"],
        "timestamp with time zone": ["now()", "NULL"], "character varying": ["{} || 'x'", "''", "'drf'"], "text": ["{} || 'x'"],
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns"
            " WHERE table_schema = current_schema() AND table_name = ANY(%s) AND column_name <> 'id'",
            [sorted(watched())],
        )
        columns = cursor.fetchall()
    for table, column, kind in columns:
        for other in others.get(kind, ["coalesce({}, 0) + 1", "NULL"]):
            yield table, column, other.format(f'"{column}"')


def is_noticed(place: Place, keypair: KeyPair, table: str, column: str, value: str) -> bool:
    """Whether it made another answer. Fails where it did and nobody noted it."""
    before = answer(place, keypair)
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("DELETE FROM sessions_app_termschange")
            cursor.execute(f'UPDATE {table} SET "{column}" = {value}')
            is_other = answer(place, keypair) != before
            is_noted = TermsChange.objects.exists()
            transaction.set_rollback(True)
    except DatabaseError:  # the column takes no such value
        return False
    assert is_noted or not is_other, (table, column, value)
    return is_other


def answer(place: Place, keypair: KeyPair) -> Any:
    values = {
        "user": place.owner.pk, "domain": place.project.domain_id, "keypair": keypair.pk, "project": place.project.name,
        "image": ContainerImage.objects.get().reference, "group": place.group.name, "slots": ["cpu"], "amounts": [1],
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(asked._statement(False, True, False), values)
        return cursor.fetchone()[:-1]  # all but what it has seen


@pytest.mark.django_db
def test_what_writes_nothing_of_that_leaves_no_note(place: Place) -> None:
    TermsChange.objects.all().delete()
    ResourceGroup.objects.update(epoch=7)
    type(place.owner).objects.update(last_login=clock.now())
    KeyPair.objects.update(last_used_at=clock.now())
    place.enqueue()
    assert not TermsChange.objects.exists()


def seen_now() -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {SEEN}")
        return str(cursor.fetchone()[0])


def have_changed(seen: str | None) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {HAVE_CHANGED}", {"seen": seen})
        return bool(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_a_change_is_one_when_it_is_committed_whenever_it_began() -> None:
    place = make_place()
    began, may_commit = threading.Event(), threading.Event()

    def change() -> None:
        with transaction.atomic():
            close_project(place)
            began.set()
            may_commit.wait(10)

    long_one = threading.Thread(target=lambda: elsewhere(change))
    long_one.start()
    began.wait(10)
    seen = seen_now()
    assert not have_changed(seen)
    may_commit.set()
    long_one.join()
    assert have_changed(seen)
    assert not have_changed(seen_now())
    assert not have_changed(None)
    with transaction.atomic():
        close_group(place)
        assert not have_changed(seen_now())  # its own


@pytest.mark.django_db(transaction=True)
def test_a_change_that_was_taken_back_is_none() -> None:
    place = make_place()
    seen = seen_now()

    def change() -> None:
        with transaction.atomic():
            close_project(place)
            transaction.set_rollback(True)

    elsewhere(change)
    assert not have_changed(seen)


CHANGES = [
    close_project, close_domain, end_membership, close_group, delete_group, take_no_such_type, allow_another_image,
]  # fmt: skip


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_inside", [False, True])
def test_what_is_refused_by_then_is_refused_though_it_was_allowed_when_it_was_read(
    change: Change, is_inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make_place()
    resolve = services.resolve_request

    def resolve_and_be_overtaken(*args: Any) -> Any:
        resolved = resolve(*args)
        elsewhere(lambda: change(place))
        return resolved

    monkeypatch.setattr(services, "resolve_request", resolve_and_be_overtaken)
    with pytest.raises(BerthError), transaction.atomic() if is_inside else nullcontext():
        place.enqueue()
    assert not ComputeSession.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_what_is_still_allowed_is_written_though_somebody_changed_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = make_place()
    resolve = services.resolve_request

    def resolve_and_be_overtaken(*args: Any) -> Any:
        resolved = resolve(*args)
        elsewhere(factories.make_project)
        return resolved

    monkeypatch.setattr(services, "resolve_request", resolve_and_be_overtaken)
    with CaptureQueriesContext(connection) as captured:
        session = place.enqueue()
    assert ComputeSession.objects.get().pk == session.pk
    words = [(each["sql"] or "").split()[0] for each in captured.captured_queries]
    assert words == ["WITH", "WITH", "BEGIN", "WITH", "WITH", "WITH", "COMMIT"]  # hold, read again, write


@pytest.mark.django_db(transaction=True)
def test_a_lone_request_is_written_by_one_statement_without_a_transaction_around_it() -> None:
    place = make_place()
    request, actor = asked_of(place), factories.actor_for(place.owner)
    with CaptureQueriesContext(connection) as captured:
        services.enqueue_session(actor=actor, request=request)
    assert [(each["sql"] or "").split()[0] for each in captured.captured_queries] == ["WITH", "WITH"]


@pytest.mark.django_db
def test_old_notes_are_forgotten(place: Place) -> None:
    now = clock.now()
    TermsChange.objects.all().delete()
    TermsChange.objects.create(transaction_id=1, noted_at=now - KEPT_FOR)
    kept = TermsChange.objects.create(transaction_id=2, noted_at=now - KEPT_FOR / 2)
    tasks.purge_expired()
    assert list(TermsChange.objects.all()) == [kept]
