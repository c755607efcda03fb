"""Pooled networks are used once, removed with their session, and never leaked."""

from typing import Any

import pytest

from agents.core.states import AgentState
from agents.machines import lifecycle as agent_lifecycle
from agents.runtime.port import NetworkSpec, RuntimeFault
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from common.actors import SYSTEM
from sessions_app.core import container_spec
from sessions_app.core.states import Reason, Status
from sessions_app.launch import network_pool
from sessions_app.launch.launcher import launch_session
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession, PooledNetwork
from sessions_app.reconciler import garbage
from tests.doubles.runtimes import SlowRuntime
from tests.factories_sessions import Place, make_place
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]

AHEAD = 3


@pytest.fixture
def place(settings: Any) -> Place:
    settings.BERTH_NETWORKS_AHEAD = AHEAD
    place = make_place(cpu_milli=64000)
    network_pool.maintain_network_pool()
    return place


def networks(place: Place) -> set[str]:
    return {network.name for network in place.runtime.list_networks({})}


def network_of(place: Place, session: ComputeSession) -> set[str]:
    state = place.runtime.inspect_container(session.kernels.get().container_name)
    assert state is not None
    return set(state.addresses)


def test_round_makes_networks_for_sessions_to_come(place: Place) -> None:
    assert networks(place) == {
        container_spec.pooled_network_name(each.pk) for each in PooledNetwork.objects.filter(is_ready=True)
    }
    assert len(networks(place)) == AHEAD
    before = networks(place)
    network_pool.maintain_network_pool()
    assert networks(place) == before


def test_session_takes_a_network_that_is_there(place: Place) -> None:
    before = networks(place)
    first, second = place.run(), place.run()
    assert networks(place) == before
    assert network_of(place, first) | network_of(place, second) < before
    assert network_of(place, first) != network_of(place, second)


def test_network_goes_with_its_session_and_a_new_one_is_made(place: Place) -> None:
    session = place.run()
    used = network_of(place, session)
    place.end(session)
    assert not used & networks(place)
    network_pool.maintain_network_pool()
    assert len(networks(place)) == AHEAD
    assert not used & networks(place)


def test_session_that_finds_none_makes_its_own(place: Place) -> None:
    sessions = [place.run() for _ in range(AHEAD + 1)]
    assert network_of(place, sessions[-1]) == {container_spec.network_name(sessions[-1].pk)}
    place.end(sessions[-1])
    assert container_spec.network_name(sessions[-1].pk) not in networks(place)


def test_more_are_made_where_many_sessions_started_lately(place: Place) -> None:
    for _ in range(AHEAD + 2):
        place.run()
    network_pool.maintain_network_pool()
    assert PooledNetwork.objects.filter(session=None, is_ready=True).count() == AHEAD + 2


def test_round_leaves_the_engine_to_sessions_that_are_starting(place: Place) -> None:
    waiting = place.place()
    place.run()
    network_pool.maintain_network_pool()
    assert PooledNetwork.objects.filter(session=None).count() == AHEAD - 1
    launch_session(waiting.pk)
    network_pool.maintain_network_pool()
    assert PooledNetwork.objects.filter(session=None, is_ready=True).count() == AHEAD


def test_launch_that_was_killed_after_it_took_a_network_keeps_it(place: Place) -> None:
    session = place.place()
    taken = network_pool.assign_pooled_network(session.pk, place.agent)
    assert taken is not None
    launch_session(session.pk)
    assert network_of(place, session) == {container_spec.pooled_network_name(taken)}
    assert PooledNetwork.objects.filter(session=session).count() == 1


def test_launch_that_goes_on_in_its_own_network_takes_none(place: Place) -> None:
    PooledNetwork.objects.all().delete()
    session = place.run()
    own = network_of(place, session)
    network_pool.maintain_network_pool()
    launch_session(session.pk)
    assert network_of(place, session) == own
    assert not PooledNetwork.objects.filter(session=session).exists()


def test_round_that_was_killed_in_the_middle_leaves_nothing(place: Place) -> None:
    unfinished = PooledNetwork.objects.create(agent=place.agent)
    spec = container_spec.build_pooled_network_spec("t", unfinished.pk, "10.213.0.0/16")
    place.runtime.ensure_network(spec)
    assert network_pool.assign_pooled_network(place.place().pk, place.agent) != unfinished.pk
    network_pool.maintain_network_pool()
    assert spec.name not in networks(place)
    assert not PooledNetwork.objects.filter(pk=unfinished.pk).exists()


def test_end_that_was_killed_before_the_row_went_is_finished_by_a_round(place: Place) -> None:
    session = place.run()
    mooring = PooledNetwork.objects.get(session=session)
    place.end(session)
    PooledNetwork.objects.create(pk=mooring.pk, agent=place.agent, session=session, is_ready=True)
    network_pool.maintain_network_pool()
    assert not PooledNetwork.objects.filter(pk=mooring.pk).exists()


def test_network_that_somebody_removed_is_made_again_at_the_start(place: Place) -> None:
    for name in networks(place):
        place.runtime.remove_network(name)
    session = place.run()
    assert session.status == Status.RUNNING
    assert network_of(place, session) == {
        container_spec.pooled_network_name(PooledNetwork.objects.get(session=session).pk)
    }


def test_purge_forgets_networks_that_are_gone_and_removes_those_that_nobody_knows(place: Place) -> None:
    gone = PooledNetwork.objects.filter(session=None).first()
    assert gone is not None
    place.runtime.remove_network(container_spec.pooled_network_name(gone.pk))
    labels = place.runtime.list_networks({})[0].labels
    place.runtime.ensure_network(NetworkSpec("berth-net-adrift", labels=labels))

    garbage.reap_leftovers(place.agent, place.runtime)

    assert networks(place) == {
        container_spec.pooled_network_name(each.pk) for each in PooledNetwork.objects.all()
    }
    assert len(networks(place)) == AHEAD - 1


@pytest.mark.parametrize("state", [AgentState.DRAINING, AgentState.MAINTENANCE, AgentState.RETIRED])
def test_machine_that_takes_no_sessions_keeps_the_networks_of_running_ones_alone(
    place: Place, state: AgentState
) -> None:
    session = place.run()
    agent_lifecycle.transition(place.agent.pk, to=state, actor=SYSTEM)
    network_pool.maintain_network_pool()
    assert networks(place) == network_of(place, session)


def test_engine_that_hangs_delays_no_other_and_is_left_out_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_pool, "ROUND_S", 0.5)
    hanging, well = make_place(), make_place()
    engine = SlowRuntime(patience_s=30)
    engine.go.set()
    adopt_runtime(hanging.agent.address, engine)
    engine.go.clear()
    try:
        network_pool.maintain_network_pool()
        assert len(networks(well)) == AHEAD
        for network in well.runtime.list_networks({}):
            well.runtime.remove_network(network.name)
        PooledNetwork.objects.filter(agent=well.agent).delete()
        network_pool.maintain_network_pool()
        assert len(networks(well)) == AHEAD
        assert PooledNetwork.objects.filter(agent=hanging.agent).count() == AHEAD
    finally:
        engine.go.set()
        wait_until(lambda: not network_pool._pool.is_busy(hanging.agent.pk))
    network_pool.maintain_network_pool()  # what was not recorded is made anew
    ready = PooledNetwork.objects.filter(agent=hanging.agent, is_ready=True)
    assert {container_spec.pooled_network_name(each.pk) for each in ready} == {
        network.name for network in engine.list_networks({})
    }


def test_engine_that_cannot_make_networks_holds_up_no_launch(place: Place) -> None:
    class FullRuntime(SimulatedRuntime):
        def ensure_network(self, spec: NetworkSpec) -> None:
            if container_spec.POOLED_NETWORK_LABEL in spec.labels:
                raise RuntimeFault("no room")
            super().ensure_network(spec)

    PooledNetwork.objects.all().delete()
    place.replace_runtime(FullRuntime)
    network_pool.maintain_network_pool()
    assert place.run().status == Status.RUNNING
    network_pool.maintain_network_pool()
    assert PooledNetwork.objects.count() <= AHEAD


def test_no_network_is_made_ahead_where_that_is_off(place: Place, settings: Any) -> None:
    settings.BERTH_NETWORKS_AHEAD = 0
    network_pool.maintain_network_pool()
    assert networks(place) == set()
    session = place.run()
    assert network_of(place, session) == {container_spec.network_name(session.pk)}


def test_ended_session_whose_end_was_killed_is_reaped_with_its_network(place: Place) -> None:
    session = place.run()
    state = place.runtime.inspect_container(session.kernels.get().container_name)
    assert state is not None
    used = network_of(place, session)
    transitions.transition(session.pk, to=Status.TERMINATING, reason=Reason.USER_REQUESTED, actor=SYSTEM)
    transitions.finish(session.pk, actor=SYSTEM)
    garbage.reap(state, place.agent, place.runtime)
    assert not used & networks(place)
