"""Celery tasks, by their effect on rows and on engines in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from django.db import connection

from accounts.models import BrowserLogin, SignInLink
from accounts.tasks import purge_sign_ins
from agents.core.states import AgentState
from agents.machines import lifecycle as agent_lifecycle
from agents.machines import network_isolation
from agents.models import Agent
from agents.runtime.docker.log_entries import LogTail
from agents.runtime.port import NetworkSpec, RuntimeRefused, RuntimeUnavailable
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.tasks import heartbeat_agents, renew_network_isolation
from common import clock
from common.actors import SYSTEM
from common.db.advisory_locks import try_exclusive
from common.models import KeptAnswer
from common.tasks import purge_answers
from sessions_app import tasks
from sessions_app.core import container_spec
from sessions_app.core.states import Status
from sessions_app.launch.launcher import launch_session, work_lock
from sessions_app.launch.terminator import end_session
from sessions_app.models import AppGrant, AppLogin, ComputeSession, PooledNetwork
from sessions_app.termination.service import terminate_session
from tests import factories
from tests.doubles.runtimes import LostRuntime
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place, make_place
from vfolders import trash as folder_trash
from vfolders.models import VFolder
from vfolders.tasks import purge_folders

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]
HOUR = timedelta(hours=1)


@contextmanager
def somebody_at(subject: str) -> Iterator[None]:
    """Another worker holds the lock of `subject`."""
    is_held, is_over = Event(), Event()

    def hold() -> None:
        with try_exclusive(subject) as is_mine:
            assert is_mine
            is_held.set()
            is_over.wait(30)
        connection.close()

    thread = Thread(target=hold, daemon=True)
    thread.start()
    assert is_held.wait(30)
    try:
        yield
    finally:
        is_over.set()
        thread.join(30)


def ending(place: Place) -> ComputeSession:
    session = place.run()
    terminate_session(actor=factories.actor_for(place.owner), session_id=session.pk)
    return place.fresh(session)


# Sessions


def test_placed_session_is_launched_and_a_stopped_one_ended(place: Place) -> None:
    session = place.place()
    tasks.launch_session(str(session.pk))
    assert place.fresh(session).status == Status.RUNNING

    terminate_session(actor=factories.actor_for(place.owner), session_id=session.pk)
    tasks.terminate_session(str(session.pk))
    assert place.fresh(session).status == Status.TERMINATED
    assert place.runtime.list_containers({}) == []


def test_session_that_another_worker_launches_or_ends_is_left_to_it(place: Place) -> None:
    placed, stopped = place.place(), ending(place)
    with somebody_at(work_lock(placed.pk)), somebody_at(work_lock(stopped.pk)):
        launch_session(placed.pk)
        end_session(stopped.pk)
    assert place.fresh(placed).status == Status.SCHEDULED
    assert place.fresh(stopped).status == Status.TERMINATING


def test_session_whose_container_ended_is_noticed_unless_another_round_is_at_it(place: Place) -> None:
    session = place.run()
    place.runtime.finish(session.kernels.get().container_name, exit_code=3)
    with somebody_at("reconcile-sessions"):
        tasks.reconcile_sessions()
    assert place.fresh(session).status == Status.RUNNING

    tasks.reconcile_sessions()
    assert place.fresh(session).status not in (Status.RUNNING, Status.PENDING)
    assert place.fresh(session).exit_code == 3


def test_networks_are_made_ahead_unless_another_round_makes_them(place: Place, settings: Any) -> None:
    settings.BERTH_NETWORKS_AHEAD = 2
    with somebody_at("moorings"):
        tasks.maintain_network_pool()
    assert not PooledNetwork.objects.exists()

    tasks.maintain_network_pool()
    assert PooledNetwork.objects.filter(is_ready=True, session=None).count() == 2
    assert len(place.runtime.list_networks({})) == 2


def test_expired_tickets_and_logins_go_and_valid_ones_stay(place: Place) -> None:
    running, ended = place.run(), place.end(place.run())
    now = clock.now()
    for name, expires_at in (("old", now - HOUR), ("new", now + HOUR)):
        AppGrant.objects.create(
            code_hash=name,
            user=place.owner,
            login_key="k",
            session=running,
            app="board",
            expires_at=expires_at,
        )
    for name, session, ends in (
        ("expired", running, now - HOUR),
        ("good", running, now + HOUR),
        ("forever", running, None),
        ("of an ended session", ended, None),
    ):
        AppLogin.objects.create(
            secret_hash=name, user=place.owner, login_key="k", session=session, app="board", expires_at=ends
        )

    tasks.purge_expired()

    assert set(AppGrant.objects.values_list("code_hash", flat=True)) == {"new"}
    assert set(AppLogin.objects.values_list("secret_hash", flat=True)) == {"good", "forever"}


def test_leftovers_of_one_machine_go_while_another_does_not_answer(place: Place) -> None:
    away = make_place()
    lost = away.replace_runtime(LostRuntime)
    assert isinstance(lost, LostRuntime)
    here = make_place()
    for each in (place, here):
        session = each.run()
        plan_labels = each.runtime.list_networks({})[0].labels
        each.end(session)
        each.runtime.ensure_network(NetworkSpec(container_spec.network_name(session.pk), labels=plan_labels))
        assert each.runtime.list_networks({})
    lost.is_lost = True

    tasks.purge_expired()

    assert place.runtime.list_networks({}) == here.runtime.list_networks({}) == []


@pytest.mark.parametrize(("state", "is_kept"), [(AgentState.DRAINING, True), (AgentState.RETIRED, False)])
def test_network_that_cannot_be_removed_is_asked_for_again_while_its_machine_is_in_use(
    place: Place, settings: Any, state: AgentState, is_kept: bool
) -> None:
    settings.BERTH_NETWORKS_AHEAD = 1
    runtime = place.replace_runtime(LostRuntime)
    assert isinstance(runtime, LostRuntime)
    tasks.maintain_network_pool()
    agent_lifecycle.transition(place.agent.pk, to=state, actor=SYSTEM)
    runtime.is_lost = True

    tasks.maintain_network_pool()

    assert PooledNetwork.objects.filter(is_ready=False).exists() is is_kept
    assert not PooledNetwork.objects.filter(is_ready=True).exists()


def test_volume_that_the_engine_will_not_remove_now_holds_up_no_end(place: Place) -> None:
    class KeepingRuntime(SimulatedRuntime):
        def remove_volume(self, name: str) -> None:
            raise RuntimeRefused("volume is in use")

    place.replace_runtime(KeepingRuntime)
    session = ending(place)
    tasks.terminate_session(str(session.pk))
    assert place.fresh(session).status == Status.TERMINATED


def test_end_waits_while_the_engine_answers_for_containers_but_not_for_their_log(place: Place) -> None:
    class MuteRuntime(LostRuntime):
        def read_log_tail(self, name: str, *, limit_bytes: int) -> LogTail:
            if self.is_lost:
                raise RuntimeUnavailable("Engine does not answer")
            return super().read_log_tail(name, limit_bytes=limit_bytes)

        def _answer(self) -> None:
            return

    runtime = place.replace_runtime(MuteRuntime)
    assert isinstance(runtime, MuteRuntime)
    session = ending(place)
    runtime.is_lost = True
    tasks.terminate_session(str(session.pk))
    assert place.fresh(session).status == Status.TERMINATING

    runtime.is_lost = False
    tasks.terminate_session(str(session.pk))
    assert place.fresh(session).status == Status.TERMINATED


# Machines


def test_machine_that_stopped_answering_is_noticed_unless_another_round_is_at_it(place: Place) -> None:
    runtime = place.replace_runtime(LostRuntime)
    assert isinstance(runtime, LostRuntime)
    runtime.is_lost = True
    with somebody_at("agents.heartbeat"):
        heartbeat_agents()
    assert Agent.objects.get(pk=place.agent.pk).last_error == ""

    heartbeat_agents()
    assert "lost" in Agent.objects.get(pk=place.agent.pk).last_error


def test_one_round_sets_up_isolation_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[str] = []
    monkeypatch.setattr(network_isolation, "renew_isolation", lambda: rounds.append("round"))
    with somebody_at("agents.machines.network_isolation"):
        renew_network_isolation()
    assert rounds == []
    renew_network_isolation()
    assert rounds == ["round"]


# What nobody may use any more


def test_deleted_folder_is_purged_unless_another_round_is_at_it(tmp_path: Path) -> None:
    host = make_storage_host(tmp_path)
    owner = factories.make_user()
    kept, gone = make_folder(owner), make_folder(owner)
    folder_trash.delete_folder(actor=factories.actor_for(owner), folder_id=gone.pk)
    with somebody_at(f"vfolders.purge.{host.pk}"):
        purge_folders(host.pk)
    assert VFolder.objects.filter(pk=gone.pk).exists()

    purge_folders(host.pk)
    assert list(VFolder.objects.values_list("pk", flat=True)) == [kept.pk]


@pytest.mark.parametrize(
    ("make", "purge"),
    [
        (
            lambda name, at: BrowserLogin.objects.create(session_key=name, session_data="", expire_date=at),
            purge_sign_ins,
        ),
        (
            lambda name, at: SignInLink.objects.create(
                user=factories.make_user(), code_hash=name, expires_at=at
            ),
            purge_sign_ins,
        ),
        (
            lambda name, at: KeptAnswer.objects.create(
                actor_id=1, key_hash=name, request_hash="", created_at=at - timedelta(hours=24)
            ),
            purge_answers,
        ),
    ],
    ids=["login", "sign-in link", "kept answer"],
)
def test_what_is_over_is_forgotten_and_what_is_not_stays(
    make: Callable[..., Any], purge: Callable[[], None]
) -> None:
    over, valid = make("over", clock.now() - HOUR), make("valid", clock.now() + HOUR)
    purge()
    assert list(type(over).objects.all()) == [valid]
