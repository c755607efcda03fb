"""The auditor of `bin/faults chaos` finds one violation of each kind, written past all services."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.conf import settings
from django.db import connection, models

from accounts.credentials.keypairs import create_keypair
from accounts.models import Domain, KeyPair, ResourcePolicy
from agents.models import ResourceGroup
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.runtime.simulated.state import clear_shared_states, shared_state
from common.actors import ActorKind
from common.messaging.redis import client
from sessions_app.admission.service import enqueue_session
from sessions_app.core.request import parse_request
from sessions_app.models import ComputeSession, Kernel, SessionArray, SessionDependency, SessionTransition
from tests.chaos.auditor import STUCK_AFTER_ROUNDS, Auditor
from tests.chaos.questions import TABLES
from tests.factories import actor_for
from tests.factories_devices import give_devices
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db(transaction=True)
SHELVES = f"audited-{settings.BERTH_INSTALLATION}"  # several processes test this at once


@pytest.fixture
def place() -> Place:
    """A running session, one of a token that waits, and an array, on engines that the auditor sees."""
    made = make_place()
    give_devices(made.agent, 2)
    adopt_runtime(made.agent.address, SimulatedRuntime(has_any_image=True, state=_state(made.agent.name)))
    running = made.run(resources={"cpu": 1, "mem": "1g", "gpu": 0.5})
    owner = actor_for(made.owner)
    keypair, _token = create_keypair(actor=owner, name="robot")
    program = replace(owner, kind=ActorKind.TOKEN, keypair_id=keypair.pk)
    waiting = enqueue_session(
        actor=program, request=parse_request(made.request(resources={"cpu": 8, "mem": "1g"}))
    )
    made.enqueue(type="batch", command="true", array="1-3%1", resources={"cpu": 8, "mem": "1g"})
    run_sql(f"INSERT INTO chaos_acknowledged VALUES ('{running.pk}'), ('{waiting.pk}')")
    return made


@pytest.fixture(autouse=True)
def auditor() -> Iterator[Auditor]:
    run_sql(TABLES)
    told = connection.get_connection_params()
    parameters = {name: told[name] for name in ("host", "port", "user", "password", "dbname") if name in told}
    with psycopg.connect(**parameters, row_factory=psycopg.rows.dict_row) as own:
        yield Auditor(own, client(), SHELVES)
    run_sql("DROP TABLE chaos_acknowledged, chaos_limits, chaos_rounds")
    clear_shared_states(f"{SHELVES}:")


def run_sql(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text)


def _state(machine: str) -> object:
    return shared_state(f"{SHELVES}:{machine}")


def test_what_is_as_it_should_be_is_left_alone(place: Place, auditor: Auditor) -> None:
    _limit_the_group(together={"cpu": 1000}, each={"gpu": 500})
    assert auditor.look(at_all=True) == []
    place.end(ComputeSession.objects.get(status="RUNNING"))
    assert auditor.look(at_all=True) == []


def _book_twice() -> None:
    run_sql("ALTER TABLE sessions_app_kernelallocation DISABLE TRIGGER USER")
    run_sql("UPDATE sessions_app_kernelallocation SET amount = amount * 2 WHERE slot_name = 'cpu'")
    run_sql("ALTER TABLE sessions_app_kernelallocation ENABLE TRIGGER USER")


def _give_a_device_twice() -> None:
    run_sql("ALTER TABLE sessions_app_kernelallocation DISABLE TRIGGER USER")
    run_sql(
        "INSERT INTO sessions_app_kernelallocation (kernel_id, agent_id, slot_name, amount, devices)"
        " SELECT kernel_id, agent_id, 'npu', 600, devices FROM sessions_app_kernelallocation WHERE slot_name = 'gpu'"
    )
    run_sql("ALTER TABLE sessions_app_kernelallocation ENABLE TRIGGER USER")


def _forget_who_holds_a_device() -> None:
    run_sql("UPDATE agents_agentdevice SET occupied = 0")


def _share_a_machine() -> None:
    """Two of one placement group that never share one."""
    running = ComputeSession.objects.get(status="RUNNING")
    [other] = ComputeSession.objects.filter(status="PENDING", array=None)
    pair = ComputeSession.objects.filter(pk__in=[running.pk, other.pk])
    pair.update(status="RUNNING", placement_group="pair", placement_rule="strict_spread")
    Kernel.objects.filter(session=other).update(agent=running.kernels.get().agent)


def _lower_a_limit_long_ago(name: str, level: type[models.Model] = Domain, **limits: Any) -> None:
    """Past all checks: what is used stays above it."""
    policy = ResourcePolicy.objects.create(name="low", **limits)
    level._default_manager.update(policy=policy)
    run_sql(f"INSERT INTO chaos_limits VALUES ('policy-{policy.pk}', '{name}', 0, now() - interval '1 hour')")


@pytest.mark.parametrize(("looked_s_ago", "is_told"), [(1, True), (45, False)])
def test_a_limit_counts_as_long_as_it_was_in_force_after_the_last_look(
    place: Place, auditor: Auditor, looked_s_ago: int, is_told: bool
) -> None:
    auditor.look()
    auditor._used_before.clear()
    auditor._looked_at = datetime.now(UTC) - timedelta(seconds=looked_s_ago)
    policy = ResourcePolicy.objects.create(name="low", max_sessions=0)
    Domain.objects.update(policy=policy)
    for limit, s_ago in ((100, 3600), (0, 30)):
        run_sql(
            f"INSERT INTO chaos_limits VALUES ('policy-{policy.pk}', 'sessions', {limit}, now() - interval '{s_ago} s')"
        )
    assert bool(auditor.look()) is is_told


def _forget_a_count() -> None:
    run_sql("UPDATE accounts_limituse SET used = used + 1 WHERE level = 'user' AND resource = 'sessions'")


def _limit_the_group(**limit: Any) -> None:
    group = ResourceGroup.objects.get()
    group.limits = [{"name": "lowered", **limit}]
    group.clean()
    group.save()


def _lower_a_limit_of_the_group(s_ago: int) -> None:
    """From what is used."""
    _limit_the_group(together={"cpu": 999})
    group = ResourceGroup.objects.get()
    for limit, at in ((1000, 3600), (999, s_ago)):
        run_sql(
            f"INSERT INTO chaos_limits VALUES ('group-{group.pk}', 'lowered.together.cpu', {limit}, now() - interval '{at} s')"
        )


@pytest.mark.parametrize(("s_ago", "is_told"), [(10, False), (30, True)])
def test_a_limit_of_a_group_counts_as_long_as_it_was_in_force(
    place: Place, auditor: Auditor, s_ago: int, is_told: bool
) -> None:
    _lower_a_limit_of_the_group(s_ago)
    assert bool(auditor.look()) is is_told


def test_what_a_lowered_limit_of_a_group_finds_there_may_stay_and_not_grow(
    place: Place, auditor: Auditor
) -> None:
    _limit_the_group(together={"cpu": 1000})
    assert auditor.look() == []
    _lower_a_limit_of_the_group(30)
    auditor._used_before = dict.fromkeys(auditor._used_before, 1000)
    assert auditor.look() == []
    auditor._used_before = dict.fromkeys(auditor._used_before, 999)
    assert [kind for kind, _ in auditor.look()] == ["limit exceeded"]


def _lose_a_session() -> None:
    run_sql(f"INSERT INTO chaos_acknowledged VALUES ('{uuid4()}')")


def _place_twice() -> None:
    step = SessionTransition.objects.filter(to_status="SCHEDULED").get()
    step.pk = None
    step.save()


def _forget_to_launch() -> None:
    ComputeSession.objects.filter(status="RUNNING").update(
        status="STARTING", status_changed_at="2020-01-01T00:00:00Z"
    )


def _go_round(times: int) -> None:
    run_sql(f"INSERT INTO chaos_rounds SELECT now() FROM generate_series(1, {times})")


def _overlook_an_end() -> None:
    [key] = client().keys(f"berth:simulated:{SHELVES}:*:containers")
    [name] = client().hkeys(key)
    told = json.loads(client().hget(key, name))
    client().hset(key, name, json.dumps(told | {"status": "exited", "code": 0, "until": 1_600_000_000.0}))


def _let_in_too_many() -> None:
    ComputeSession.objects.filter(held_for="array_limit").update(held_for="")


def _start_elsewhere_too() -> None:
    [key] = client().keys(f"berth:simulated:{SHELVES}:*:containers")
    client().copy(key, key.replace(b"machine-", b"other-"))


def _come_after_a_session() -> ComputeSession:
    """The one that waits, after the one that runs."""
    [session] = ComputeSession.objects.filter(status="PENDING", array=None)
    awaited = ComputeSession.objects.get(status="RUNNING")
    SessionDependency.objects.create(session=session, after=awaited, when="any")
    return session


def _come_after_an_array() -> ComputeSession:
    [session] = ComputeSession.objects.filter(status="PENDING", array=None)
    SessionDependency.objects.create(session=session, after_array=SessionArray.objects.get(), when="any")
    return session


def _overlook_that_all_have_ended(come_after: Callable[[], ComputeSession]) -> None:
    session = come_after()
    ComputeSession.objects.filter(pk=session.pk).update(held_for="dependency")
    others = ComputeSession.objects.exclude(pk=session.pk)
    others.update(status="TERMINATED", queue_position=None, ended_at="2020-01-01T00:00:00Z")


def _start_too_early(come_after: Callable[[], ComputeSession]) -> None:
    ComputeSession.objects.filter(pk=come_after().pk).update(status="SCHEDULED")


@pytest.mark.parametrize(
    ("kind", "harm"),
    [
        ("over-allocated", _book_twice),
        ("over-allocated", _give_a_device_twice),
        ("over-allocated", _forget_who_holds_a_device),
        ("too close", _share_a_machine),
        ("limit exceeded", lambda: _lower_a_limit_long_ago("sessions", max_sessions=1)),
        ("limit exceeded", lambda: _lower_a_limit_long_ago("pending_sessions", max_pending_sessions=0)),
        ("limit exceeded", lambda: _lower_a_limit_long_ago("slots.cpu", max_slots={"cpu": 1})),
        (
            "limit exceeded",
            lambda: _lower_a_limit_long_ago("pending_slots.mem", max_pending_slots={"mem": 1}),
        ),
        ("limit exceeded", lambda: _lower_a_limit_long_ago("sessions", KeyPair, max_sessions=0)),
        ("limit exceeded", lambda: _limit_the_group(together={"cpu": 999})),
        ("limit exceeded", lambda: _limit_the_group(session_types=["interactive"], each={"gpu": 499})),
        ("limit exceeded", _forget_a_count),
        ("limit exceeded", _let_in_too_many),
        ("lost", _lose_a_session),
        ("doubled", _place_twice),
        ("stuck", _forget_to_launch),
        ("stuck", _overlook_an_end),
        ("stuck", lambda: _overlook_that_all_have_ended(_come_after_a_session)),
        ("stuck", lambda: _overlook_that_all_have_ended(_come_after_an_array)),
        ("too early", lambda: _start_too_early(_come_after_a_session)),
        ("too early", lambda: _start_too_early(_come_after_an_array)),
        ("doubled", _start_elsewhere_too),
    ],
)
def test_a_violation_is_found(place: Place, auditor: Auditor, kind: str, harm: Callable[[], None]) -> None:
    harm()
    _go_round(STUCK_AFTER_ROUNDS)
    assert kind in {found for found, _ in auditor.look(at_all=True)}
    assert settings.BERTH_INSTALLATION != SHELVES


def test_what_nobody_looked_after_yet_is_late_and_not_stuck(place: Place, auditor: Auditor) -> None:
    _forget_to_launch()
    _go_round(STUCK_AFTER_ROUNDS - 1)
    assert "stuck" not in {found for found, _ in auditor.look()}
    _go_round(1)
    assert "stuck" in {found for found, _ in auditor.look()}


@pytest.mark.parametrize(("kind", "harm"), [("lost", _lose_a_session), ("doubled", _place_twice)])
def test_what_is_new_is_found_by_a_look_that_leaves_the_old_alone(
    place: Place, auditor: Auditor, kind: str, harm: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.chaos.auditor.AGAIN_FOR_S", 0)
    place.end(ComputeSession.objects.get(status="RUNNING"))
    assert auditor.look() == []
    assert auditor.look() == []
    harm()
    assert kind in {found for found, _ in auditor.look()}
    assert auditor.look() == []
    assert kind in {found for found, _ in auditor.look(at_all=True)}
