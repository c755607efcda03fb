"""Policy limits at each level, and the use rows that enforce them."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from accounts.credentials.keypairs import create_keypair
from accounts.models import KeyPair, LimitUse, ResourcePolicy
from accounts.policies.service import LimitedObject
from common.actors import Actor, ActorKind
from common.errors import LimitExceeded, PermissionDenied
from scheduler.tick import run_tick
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import HOLDING, LIVE, Reason, Status
from sessions_app.lifecycle.transitions import transition
from sessions_app.models import ComputeSession
from sessions_app.termination.service import terminate_session
from tests.factories import actor_for, make_project, make_user
from tests.factories_limits import limit, use_of
from tests.factories_sessions import GIB, Place, make_place

pytestmark = pytest.mark.django_db
LEVELS = ("domain", "project", "user", "keypair")


@pytest.fixture
def program(place: Place) -> Actor:
    """The owner, by a token."""
    keypair, _token = create_keypair(actor=actor_for(place.owner), name="robot")
    return replace(actor_for(place.owner), kind=ActorKind.TOKEN, keypair_id=keypair.pk)


def target_of(place: Place, program: Actor, level: str) -> LimitedObject:
    return {
        "domain": lambda: place.project.domain,
        "project": lambda: place.project,
        "user": lambda: place.owner,
        "keypair": lambda: KeyPair.objects.get(pk=program.keypair_id),
    }[level]()


def ask(place: Place, program: Actor, **changes: object) -> ComputeSession:
    return enqueue_session(actor=program, request=parse_request(place.request(**changes)))


def limits_hit(asking: Callable[[], object]) -> list[tuple[str, str, int, int, int, int]]:
    with pytest.raises(LimitExceeded) as refused:
        asking()
    names = ("limit", "level", "value", "used", "asked", "left")
    return [tuple(state[name] for name in names) for state in refused.value.limits]


@pytest.mark.parametrize("level", LEVELS)
def test_live_sessions_are_limited_at_each_level(place: Place, program: Actor, level: str) -> None:
    limit(target_of(place, program, level), max_sessions=2)
    first = ask(place, program)
    ask(place, program)

    assert limits_hit(lambda: ask(place, program)) == [("sessions", level, 2, 2, 1, 0)]

    terminate_session(actor=program, session_id=first.pk)
    ask(place, program)


@pytest.mark.parametrize("level", LEVELS)
def test_waiting_sessions_and_what_they_ask_for_are_limited_at_each_level(
    place: Place, program: Actor, level: str
) -> None:
    limit(
        target_of(place, program, level), max_pending_sessions=2, max_pending_slots={"cpu": 2500, "cuda": 0}
    )
    ask(place, program)
    ask(place, program)

    assert limits_hit(lambda: ask(place, program)) == [
        ("pending_sessions", level, 2, 2, 1, 0),
        ("pending_slots.cpu", level, 2500, 2000, 1000, 500),
    ]

    run_tick(place.group.pk)
    ask(place, program)


@pytest.mark.parametrize("level", LEVELS)
def test_request_above_a_limit_is_refused_and_use_by_others_is_waited_for(
    place: Place, program: Actor, level: str
) -> None:
    target = target_of(place, program, level)
    limit(target, max_slots={"cpu": 3000})

    assert limits_hit(lambda: ask(place, program, resources={"cpu": 4, "mem": "1g"})) == [
        ("slots.cpu", level, 3000, 0, 4000, 3000)
    ]
    first = ask(place, program, resources={"cpu": 2, "mem": "1g"})
    second = ask(place, program, resources={"cpu": 2, "mem": "1g"})
    run_tick(place.group.pk)

    assert place.fresh(first).status == Status.SCHEDULED
    waiting = place.fresh(second)
    assert (waiting.status, waiting.status_reason) == (Status.PENDING, "limit_reached")
    assert "Waits for 2 cores" in str(waiting.status_message)
    assert "have 2 cores of 3 cores allocated" in str(waiting.status_message)
    assert use_of(target)["slots.cpu"] == 2000

    place.end(first)
    run_tick(place.group.pk)
    assert place.fresh(second).status == Status.SCHEDULED


def test_a_refusal_names_every_limit_of_every_level(place: Place, program: Actor) -> None:
    for level in LEVELS:
        limit(target_of(place, program, level), max_sessions=0, max_slots={"cpu": 500}, max_lifetime_s=60)

    with pytest.raises(LimitExceeded) as refused:
        ask(place, program, type="batch", command="true", timeout_s=7200)

    found = Counter(state["limit"] for state in refused.value.limits)
    assert found == {"sessions": 4, "lifetime_s": 4, "slots.cpu": 4}
    said = refused.value.message
    assert f"The project “{place.project.name}” has reached its limit of live sessions (0 of 0)." in said
    assert "Your account may have at most 0.5 cores allocated; you asked for 1 core." in said
    assert "The token “robot” may run a session for at most 1 min; you asked for 2 h." in said
    assert set(refused.value.fields) == {"timeout_s", "resources"}


def test_limits_of_others_do_not_count(place: Place, program: Actor) -> None:
    limit(make_project(place.project.domain), max_sessions=0)
    limit(make_user(member_of=place.project), max_sessions=0)
    limit(create_keypair(actor=actor_for(place.owner), name="other")[0], max_sessions=0)
    ask(place, program)
    place.enqueue()


def test_a_page_is_not_limited_by_what_a_token_may(place: Place, program: Actor) -> None:
    limit(target_of(place, program, "keypair"), max_sessions=1)
    ask(place, program)
    place.enqueue()
    assert limits_hit(lambda: ask(place, program))[0][:2] == ("sessions", "keypair")


def test_a_token_that_is_limited_makes_no_tokens_that_are_not(place: Place, program: Actor) -> None:
    policy = ResourcePolicy.objects.create(name="few", max_sessions=1)
    KeyPair.objects.filter(pk=program.keypair_id).update(policy=policy)

    with pytest.raises(PermissionDenied):
        create_keypair(actor=program, name="free")


def test_a_session_ends_even_where_less_was_counted(place: Place) -> None:
    session = place.run()
    LimitUse.objects.update(used=0)

    place.end(session)

    assert not LimitUse.objects.filter(used__lt=0).exists()


def test_a_limit_below_what_is_used_ends_nothing_and_refuses_more(place: Place, program: Actor) -> None:
    running = [place.run() for _ in range(3)]
    waiting = place.enqueue(resources={"cpu": 8, "mem": "1g"})
    limit(place.project, max_sessions=1, max_slots={"cpu": 1000})

    assert limits_hit(lambda: ask(place, program)) == [("sessions", "project", 1, 4, 1, 0)]
    run_tick(place.group.pk)
    assert [place.fresh(each).status for each in running] == [Status.RUNNING] * 3
    assert "cancel it and ask for less" in str(place.fresh(waiting).status_message)
    place.end(running[0])
    assert use_of(place.project)["slots.cpu"] == 2000


def test_a_session_keeps_the_lifetime_that_was_allowed_when_it_was_asked_for(place: Place) -> None:
    limit(place.owner, max_lifetime_s=7200)
    policy = limit(place.project, max_lifetime_s=3600)
    session = place.place()
    ResourcePolicy.objects.filter(pk=policy.pk).update(max_lifetime_s=60)

    for status in (Status.PREPARING, Status.STARTING, Status.RUNNING):
        session = transition(session.pk, to=status, reason=Reason.PREPARING, actor=actor_for(place.owner))

    assert session.lifetime_s == 3600
    assert (session.deadline_at - session.status_changed_at).total_seconds() == 3600


def test_a_revoked_token_goes_on_counting_what_it_started(place: Place, program: Actor) -> None:
    session = ask(place, program)
    KeyPair.objects.get(pk=program.keypair_id).delete()
    terminate_session(actor=actor_for(place.owner), session_id=session.pk)
    assert not LimitUse.objects.filter(level="keypair", used__gt=0).exists()


def test_database_enforces_limits_for_every_writer(place: Place) -> None:
    limit(place.project, max_sessions=1)
    again = place.fresh(place.enqueue())
    again.pk, again.name, again.host_label = uuid4(), "by hand", "by-hand"
    with pytest.raises(IntegrityError, match="more than 1"), transaction.atomic():
        again.save(force_insert=True)


def test_session_cannot_change_its_project(place: Place) -> None:
    session = place.enqueue()
    with pytest.raises(DatabaseError, match="stays whose it is"), transaction.atomic():
        ComputeSession.objects.filter(pk=session.pk).update(project=make_project())


def test_the_ledger_is_what_live_sessions_are(place: Place, program: Actor) -> None:
    sessions = [ask(place, program) for _ in range(2)] + [place.run(), place.enqueue()]
    assert_ledger_is_true(place)
    run_tick(place.group.pk)
    assert_ledger_is_true(place)
    for session in sessions:
        if place.fresh(session).status in LIVE:
            place.end(session)
        assert_ledger_is_true(place)
    assert use_of(place.project) == {}


SESSIONS = ComputeSession._meta.db_table
WRITTEN = ", ".join(field.column for field in ComputeSession._meta.concrete_fields if not field.generated)
CHANGES = (
    f"""
    INSERT INTO {SESSIONS} ({WRITTEN}) SELECT {WRITTEN} FROM (SELECT (jsonb_populate_record(row, jsonb_build_object('id', new.id, 'name', new.id,
        'host_label', left(md5(new.id::text), 20), 'kernel_count', 2))).*
    FROM {SESSIONS} AS row, unnest(%(ids)s::uuid[]) AS new (id) WHERE row.id = %(like)s) AS copy
    """,
    f"""UPDATE {SESSIONS} SET requested_slots = '{{"cpu": 500, "gpu": 1000}}' WHERE id = ANY(%(ids)s)""",
    f"UPDATE {SESSIONS} SET kernel_count = 3 WHERE id = ANY(%(ids)s)",
    f"UPDATE {SESSIONS} SET queue_position = 7 WHERE id = ANY(%(ids)s)",
    f"UPDATE {SESSIONS} SET status = 'SCHEDULED' WHERE id = ANY(%(ids)s)",
    f"UPDATE {SESSIONS} SET status = 'PENDING' WHERE id = ANY(%(ids)s)",
    f"UPDATE {SESSIONS} SET status = 'CANCELLED', ended_at = now() WHERE id = ANY(%(ids)s)",
    f"UPDATE {SESSIONS} SET status = 'RUNNING', ended_at = NULL, kernel_count = 1 WHERE id = ANY(%(ids)s)",
    f"DELETE FROM {SESSIONS} WHERE id = ANY(%(ids)s)",
)


def ledgers(place: Place, like: ComputeSession, groups: list[list[UUID]]) -> list[dict[str, int]]:
    """What each of the changes leaves, done to one of these groups of sessions after the other; nothing of it stays."""
    found = []
    with transaction.atomic(), connection.cursor() as cursor:
        for change in CHANGES:
            for ids in groups:
                cursor.execute(change, {"ids": ids, "like": like.pk})
            found.append(use_of(place.project))
        transaction.set_rollback(True)
    return found


def test_what_changes_alone_counts_as_among_many(place: Place) -> None:
    like, ids = place.enqueue(), [uuid4() for _ in range(3)]
    alone, together = (ledgers(place, like, groups) for groups in ([[each] for each in ids], [ids]))
    assert alone == together
    waits, asks_for_more, *_, runs, gone = alone
    assert (waits["sessions"], waits["pending_sessions"], gone["sessions"]) == (4, 4, 1)
    assert asks_for_more["pending_slots.gpu"] == 6000
    assert runs["sessions"] == 4


def assert_ledger_is_true(place: Place) -> None:
    for target, column in (
        (place.project, "project"),
        (place.owner, "owner"),
        (place.project.domain, "domain"),
    ):
        expected: Counter[str] = Counter()
        for session in ComputeSession.objects.live().filter(**{column: target}):
            is_placed = session.status in HOLDING
            expected.update(["sessions"] if is_placed else ["sessions", "pending_sessions"])
            for name, amount in session.requested_slots.items():
                expected[f"{'slots' if is_placed else 'pending_slots'}.{name}"] += amount
        assert {**use_of(target), "keypairs": 0} == {**expected, "keypairs": 0}


def test_the_database_knows_the_terminal_statuses(place: Place) -> None:
    with connection.cursor() as cursor:
        for status in Status:
            cursor.execute(
                "SELECT count(*) FROM berth_session_use(1, NULL, NULL, NULL, %s, %s, 1::smallint)",
                [status.value, '{"cpu": 1}'],
            )
            [parts] = cursor.fetchone()
            assert parts == (3 if status is Status.PENDING else 1 if status in LIVE else 0), status


@pytest.mark.django_db(transaction=True)
def test_concurrent_ticks_of_groups_do_not_exceed_a_shared_limit() -> None:
    """Two resource groups, one project: each has room, both together have not."""
    here, there = make_place(), make_place()
    limit(here.owner, max_slots={"cpu": 3000, "mem": 64 * GIB})
    requests = [
        here.request(resource_group=group.name, resources={"cpu": 2, "mem": "1g"})
        for group in (here.group, there.group)
    ]
    for request in requests:
        enqueue_session(actor=actor_for(here.owner), request=parse_request(request))

    def tick(group_id: int) -> None:
        try:
            run_tick(group_id)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(tick, (here.group.pk, there.group.pk)))
    assert sorted(ComputeSession.objects.values_list("status", "status_reason")) == [
        ("PENDING", "limit_reached"),
        ("SCHEDULED", "placed"),
    ]
    assert use_of(here.owner)["slots.cpu"] == 2000
