"""Silent, replaced or faulty engines do not disturb sessions of other agents."""

from datetime import timedelta

import pytest
from django.conf import settings

from agents.machines import service as agent_services
from agents.runtime.port import ContainerSpec, RuntimeRefused
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from common import clock
from common.db.advisory_locks import try_exclusive
from sessions_app.core import container_spec
from sessions_app.core.states import Status
from sessions_app.launch.launcher import work_lock
from sessions_app.reconciler import loop
from tests.factories_sessions import Place, make_place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]


def test_another_engine_at_the_address_of_a_machine_ends_none_of_its_sessions(place: Place) -> None:
    session = place.run()
    adopt_runtime(place.agent.address, SimulatedRuntime(name="another", images=[place.image.reference]))
    loop.reconcile_sessions()
    assert place.fresh(session).status == Status.RUNNING


def test_engine_that_answers_at_the_address_of_another_machine_keeps_its_containers(place: Place) -> None:
    other = make_place()
    session = other.run()
    adopt_runtime(place.agent.address, other.runtime)
    loop.reconcile_sessions()
    assert other.fresh(session).status == Status.RUNNING
    assert len(other.runtime.list_containers({})) == 1


def test_machine_that_missed_its_heartbeat_is_not_waited_for(place: Place) -> None:
    class Hanging(SimulatedRuntime):
        asked = 0

        def list_containers(self, labels):  # type: ignore[no-untyped-def]
            self.asked += 1
            return super().list_containers(labels)

    hanging = Hanging(images=[place.image.reference])
    adopt_runtime(place.agent.address, hanging)
    agent_services.record_silence(place.agent.pk, "Engine does not answer: timed out")
    loop.reconcile_sessions()
    assert hanging.asked == 0


def test_container_that_cannot_be_removed_does_not_keep_the_others_from_it(place: Place) -> None:
    class Sticky(SimulatedRuntime):
        def remove_container(self, name: str) -> None:
            if name.startswith("stuck"):
                raise RuntimeRefused("device or resource busy")
            super().remove_container(name)

    place.replace_runtime(lambda images: Sticky(name=place.agent.name, images=images))
    kernel = place.end(place.run()).kernels.get()
    labels = {
        container_spec.INSTALLATION_LABEL: settings.BERTH_INSTALLATION,
        container_spec.KERNEL_LABEL: str(kernel.pk),
    }
    for number in range(6):
        name = f"{'stray' if number % 2 else 'stuck'}-{number}"
        spec = ContainerSpec(
            name=name, image=place.image.reference, labels=labels, cpu_milli=10, mem_bytes=2**25
        )
        place.runtime.ensure_container(spec)
    loop.reconcile_sessions()
    names = [state.name for state in place.runtime.list_containers({})]
    assert names == ["stuck-0", "stuck-2", "stuck-4"]


def test_stale_work_is_asked_for_once_while_it_hangs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(loop, "enqueue_on_commit", lambda task, **arguments: asked.append(arguments))
    place.place()
    with clock.frozen_at(clock.now() + timedelta(seconds=20)):
        loop.restart_stale_work()
        loop.restart_stale_work()
    assert len(asked) == 1


def test_sessions_with_a_work_lock_are_not_requested_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(loop, "enqueue_on_commit", lambda task, **arguments: asked.append(arguments))
    session = place.place()
    with clock.frozen_at(clock.now() + timedelta(seconds=20)):
        with try_exclusive(work_lock(session.pk)):
            loop.restart_stale_work()
        assert asked == []
        loop.restart_stale_work()
    assert asked == [{"session_id": str(session.pk)}]


def test_address_follows_a_container_that_was_started_anew_by_hand(place: Place) -> None:
    session = place.run()
    [state] = place.runtime.list_containers({})
    session.kernels.update(address="10.213.255.2")
    loop.reconcile_sessions()
    assert [session.kernels.get().address] == list(state.addresses.values())
