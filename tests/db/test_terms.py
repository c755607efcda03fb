"""Whoever changes what a request was judged by, between that and its writing, is noticed; whoever changes anything else is not."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from itertools import count
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.test.utils import CaptureQueriesContext

from accounts.models import KeyPair, Membership
from accounts.policies import LimitUse, ResourcePolicy
from agents.groups import update_resource_group
from agents.models import ResourceGroup
from common import clock
from common.actors import SYSTEM
from common.errors import BerthError, Conflict, LimitExceeded, NotFound
from common.prepared import _numbered
from common.scopes import TokenScope
from images.models import ContainerImage, Registry
from scheduler.models import SchedulerState
from sessions_app import asked, services, tasks
from sessions_app.models import ComputeSession, TermsChange
from sessions_app.terms import KEPT_FOR
from tests import factories
from tests.db.test_asked import asked_of
from tests.db.test_closing_while_enqueueing import somebody_waits_for_a_lock
from tests.db.test_scheduler_concurrency import held_open
from tests.elsewhere import elsewhere
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place
from tests.waiting import wait_until

Change = Callable[[Place], object]
# What is true of a moment, and changes again and again: it is looked at when sessions are placed, or by the database.
OF_THE_MOMENT = {
    "accounts_budget", "accounts_limituse", "agents_agent", "agents_agentimage", "agents_agentslot",
}  # fmt: skip


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


def disable_image(place: Place) -> None:
    ContainerImage.objects.filter(pk=place.image.pk).update(is_enabled=False)


def forbid_sessions_of_its_size(place: Place) -> None:
    limit(place.owner, max_slots={"cpu": 1})


def limit_its_group(place: Place) -> None:
    limits = [{"name": "little", "each": {"cpu": 1}}]
    update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"limits": limits})


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
    mattered = {each for each in changes() if is_noticed(place, keypair, *each)}
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
        "image": ContainerImage.objects.get().reference, "group": place.group.name, "model": "", "slots": ["cpu"], "amounts": [1],
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(asked._statement(False, True, False), values)
        return cursor.fetchone()[:-1]  # all but what it has seen


def test_what_writes_nothing_of_that_leaves_no_note(place: Place) -> None:
    TermsChange.objects.all().delete()
    SchedulerState.objects.update_or_create(group=place.group, defaults={"epoch": 7})
    type(place.owner).objects.update(last_login=clock.now())
    KeyPair.objects.update(last_used_at=clock.now())
    place.enqueue()
    assert not TermsChange.objects.exists()


@pytest.fixture
def after_reading(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do this between the reading of the next request and its writing."""
    resolve = services.resolve_request

    def patch(job: Callable[[], object]) -> None:
        def resolve_and_be_overtaken(*args: Any) -> Any:
            resolved = resolve(*args)
            monkeypatch.setattr(services, "resolve_request", resolve)
            job()
            return resolved

        monkeypatch.setattr(services, "resolve_request", resolve_and_be_overtaken)

    return patch


def first_words(job: Callable[[], object]) -> list[str]:
    """Of the statements that it asks."""
    with CaptureQueriesContext(connection) as captured:
        job()
    return [(each["sql"] or "").split()[0] for each in captured.captured_queries]


CHANGES = [
    close_project, close_domain, end_membership, close_group, delete_group, take_no_such_type, allow_another_image,
    disable_image, forbid_sessions_of_its_size, limit_its_group,
]  # fmt: skip


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_inside", [False, True])
def test_what_is_refused_by_then_is_refused_though_it_was_allowed_when_it_was_read(
    change: Change, is_inside: bool, after_reading: Any
) -> None:
    place = make_place()
    after_reading(lambda: elsewhere(lambda: change(place)))
    with pytest.raises(BerthError), transaction.atomic() if is_inside else nullcontext():
        place.enqueue()
    assert not ComputeSession.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_it_gets_what_is_allowed_by_then(after_reading: Any) -> None:
    place = make_place()
    after_reading(lambda: elsewhere(lambda: limit(place.owner, max_lifetime_s=60)))
    assert place.enqueue().lifetime_s == 60


@pytest.mark.django_db(transaction=True)
def test_a_change_counts_from_its_commit_whenever_it_began(after_reading: Any) -> None:
    place = make_place()
    with ExitStack() as uncommitted:
        uncommitted.enter_context(held_open(lambda: end_membership(place)))
        after_reading(uncommitted.close)
        with pytest.raises(NotFound):
            place.enqueue()


@pytest.mark.django_db(transaction=True)
def test_what_changes_while_it_waits_for_what_others_count_is_noticed_too() -> None:
    place = make_place()
    policy = limit(place.owner)
    place.enqueue()
    told: list[object] = []

    def enqueue() -> None:
        try:
            told.append(place.enqueue())
        except BerthError as error:
            told.append(error)

    late = threading.Thread(target=lambda: elsewhere(enqueue))
    with held_open(lambda: list(LimitUse.objects.select_for_update())):
        late.start()
        wait_until(somebody_waits_for_a_lock)
        elsewhere(lambda: ResourcePolicy.objects.filter(pk=policy.pk).update(allowed_images=["another:*"]))
    late.join()
    assert [type(each) for each in told] == [LimitExceeded]


@pytest.mark.django_db(transaction=True)
def test_what_was_taken_back_or_changed_in_the_same_transaction_before_is_no_change(
    after_reading: Any,
) -> None:
    place = make_place()

    def take_back() -> None:
        with transaction.atomic():
            close_project(place)
            transaction.set_rollback(True)

    after_reading(lambda: elsewhere(take_back))
    assert first_words(place.enqueue) == ["WITH", "WITH"]
    with transaction.atomic():
        factories.make_project()
        assert first_words(place.enqueue).count("WITH") == 2


@pytest.mark.django_db(transaction=True)
def test_a_request_is_judged_anew_where_somebody_changed_something_else(after_reading: Any) -> None:
    place = make_place()
    after_reading(lambda: elsewhere(factories.make_project))
    assert first_words(place.enqueue) == ["WITH", "WITH"] * 2
    assert ComputeSession.objects.count() == 1


@pytest.fixture
def always_after_reading(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do this each time between the reading of a request and its writing."""
    resolve = services.resolve_request

    def patch(job: Callable[[], object]) -> None:
        def resolve_and_be_overtaken(*args: Any) -> Any:
            resolved = resolve(*args)
            elsewhere(job)
            return resolved

        monkeypatch.setattr(services, "resolve_request", resolve_and_be_overtaken)

    return patch


@pytest.mark.django_db(transaction=True)
def test_others_terms_that_never_stand_still_keep_nobody_out(always_after_reading: Any) -> None:
    place = make_place()
    always_after_reading(factories.make_project)
    assert first_words(place.enqueue)[-5:] == ["WITH", "BEGIN", "WITH", "WITH", "COMMIT"]  # and read again
    assert ComputeSession.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_where_its_own_terms_never_stand_still_it_is_refused(always_after_reading: Any) -> None:
    place, most = make_place(), count(10)
    always_after_reading(lambda: limit(place.owner, max_sessions=next(most)))
    with pytest.raises(Conflict, match="again and again"):
        place.enqueue()
    assert not ComputeSession.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_many_are_written_though_others_terms_change_while_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    place = make_place()
    copy = services.copy_session

    def copy_overtaken(*args: Any) -> Any:
        elsewhere(factories.make_project)
        return copy(*args)

    monkeypatch.setattr(services, "copy_session", copy_overtaken)
    requests = [asked_of(place, name=name) for name in ("a", "b", "c")]
    ids = services.enqueue_alike(actor=factories.actor_for(place.owner), requests=requests)
    assert set(ComputeSession.objects.values_list("pk", flat=True)) == set(ids)
    assert len(ids) == 3


@pytest.mark.django_db(transaction=True)
def test_notes_of_another_cluster_are_nothing_to_this_one() -> None:
    """As a backup brings them."""
    place = make_place()
    TermsChange.objects.create(transaction_id=10**12, noted_at=clock.now())
    assert first_words(place.enqueue) == ["WITH", "WITH"]


@pytest.mark.django_db(transaction=True)
def test_a_lone_request_is_written_by_one_statement_without_a_transaction_around_it() -> None:
    assert first_words(make_place().enqueue) == ["WITH", "WITH"]


@pytest.mark.django_db(transaction=True)
def test_old_notes_cost_a_request_nothing() -> None:
    place, notes = (
        make_place(),
        [TermsChange(transaction_id=number, noted_at=clock.now()) for number in range(1, 500)],
    )
    TermsChange.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM sessions_app_termschange")  # now reading all of it is cheapest
        for _ in range(7):  # PostgreSQL keeps a plan for all then
            place.enqueue()
        TermsChange.objects.bulk_create(notes)
        before = read_of_notes(cursor)
        for _ in range(7):
            place.enqueue()
        assert read_of_notes(cursor) - before < 50


def read_of_notes(cursor: CursorWrapper) -> int:
    cursor.execute("SELECT pg_stat_force_next_flush()")
    cursor.execute(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'sessions_app_termschange'"
    )
    [(count,)] = cursor.fetchall()
    return int(count)


def test_old_notes_are_forgotten(place: Place) -> None:
    now = clock.now()
    TermsChange.objects.all().delete()
    TermsChange.objects.create(transaction_id=1, noted_at=now - KEPT_FOR)
    kept = TermsChange.objects.create(transaction_id=2, noted_at=now - KEPT_FOR / 2)
    tasks.purge_expired()
    assert list(TermsChange.objects.all()) == [kept]
