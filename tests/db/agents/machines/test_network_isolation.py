"""Network isolation of sessions: when it is set up, relied on, and reported as missing."""

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from agents.machines import helper_containers, network_isolation
from agents.machines import service as machines_service
from agents.machines.network_isolation import IsolationMissing
from agents.models import Agent
from agents.resource_groups import service as resource_groups_service
from agents.runtime.port import ContainerSpec
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from common import clock
from common.actors import SYSTEM
from images.models import ContainerImage
from sessions_app.core.states import Reason, Status
from sessions_app.launch import launcher
from tests.conftest import People
from tests.doubles.runtimes import NakedRuntime
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db
BUILT = "berth/python:1"
_numbers = count(1)


@pytest.fixture
def image() -> ContainerImage:
    return ContainerImage.objects.create(reference=BUILT, digest=f"sha256:{BUILT}")


@pytest.fixture
def engine() -> SimulatedRuntime:
    return SimulatedRuntime(name=f"walls-{next(_numbers)}", images=[BUILT, "hub.example/tool:1"])


@pytest.fixture
def agent(engine: SimulatedRuntime) -> Agent:
    return register(engine)


def register(engine: SimulatedRuntime) -> Agent:
    """A machine with a network, as far as anybody can tell from its address."""
    address = f"unix:///walls-{next(_numbers)}.sock"
    adopt_runtime(address, engine)
    resource_groups_service.create_resource_group(
        actor=SYSTEM, name=f"walls-{next(_numbers)}", is_default=False
    )
    return machines_service.register_agent(actor=SYSTEM, name=f"walls-{next(_numbers)}", address=address)


def keep_walls_after(seconds: float) -> None:
    with clock.frozen_at(clock.now() + timedelta(seconds=seconds)):
        network_isolation.renew_isolation()


def require_isolation(agent: Agent) -> None:
    agent.refresh_from_db()
    network_isolation.require_isolation(agent)


def test_first_launch_sets_up_isolation_and_the_next_ones_rely_on_it(
    agent: Agent, engine: SimulatedRuntime, image: ContainerImage
) -> None:
    require_isolation(agent)
    require_isolation(agent)

    (helper,) = engine.helpers
    assert (helper.image, helper.capabilities) == (image.digest, ("NET_ADMIN",))


def test_rounds_set_up_isolation_every_five_minutes(
    agent: Agent, engine: SimulatedRuntime, image: ContainerImage
) -> None:
    for seconds in (0, 60, 299, 301, 330):
        keep_walls_after(seconds)
    assert len(engine.helpers) == 2


def test_isolation_is_set_up_again_after_a_reboot(
    agent: Agent, engine: SimulatedRuntime, image: ContainerImage
) -> None:
    require_isolation(agent)
    engine.reboot()
    machines_service.heartbeat_agents()
    require_isolation(agent)
    assert len(engine.helpers) == 2


def test_only_an_image_that_was_built_here_works_on_the_machine(
    agent: Agent, engine: SimulatedRuntime
) -> None:
    ContainerImage.objects.create(reference="hub.example/tool:1", digest="sha256:hub.example/tool:1")
    with pytest.raises(IsolationMissing, match="session image"):
        require_isolation(agent)
    assert engine.helpers == []


def test_best_effort_continues_without_isolation_and_says_so(agent: Agent, settings: Any) -> None:
    settings.BERTH_WALLS = "best-effort"
    require_isolation(agent)
    agent.refresh_from_db()
    assert "session image" in agent.data["walls"]["error"]


def test_missing_isolation_is_reported_each_round_until_it_is_set_up(
    agent: Agent, engine: SimulatedRuntime
) -> None:
    network_isolation.renew_isolation()
    ContainerImage.objects.create(reference=BUILT, digest=f"sha256:{BUILT}")
    network_isolation.renew_isolation()

    agent.refresh_from_db()
    assert agent.data["walls"]["error"] == ""


def test_no_container_starts_where_the_machine_takes_no_rules(image: ContainerImage) -> None:
    place = make_place()
    naked = NakedRuntime(name=f"naked-{next(_numbers)}", images=[BUILT, place.image.reference])
    address = f"unix:///naked-{next(_numbers)}.sock"
    adopt_runtime(address, naked)
    Agent.objects.filter(pk=place.agent.pk).update(address=address)
    session = place.place()

    launcher.launch_session(session.pk)

    session = place.fresh(session)
    assert (session.status, session.status_reason) == (Status.TERMINATING, Reason.WALLS_MISSING)
    assert "Operation not supported" in str(session.status_message)
    assert naked.list_containers({}) == []
    assert naked.list_networks({}) == []


def test_only_superadmins_read_why_isolation_is_missing(
    agent: Agent, people: People, browser_of: Callable[[User], Client]
) -> None:
    network_isolation.renew_isolation()
    assert "No walls around sessions" in browser_of(people.superadmin).get("/agents/").content.decode()
    assert "No walls around sessions" not in browser_of(people.member).get("/agents/").content.decode()


def test_helper_whose_process_died_is_removed_once_nobody_can_wait_for_it(
    engine: SimulatedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(helper_containers.time, "monotonic", lambda: now)
    spec = {"image": BUILT, "cpu_milli": 10, "mem_bytes": 2**25}
    engine.ensure_container(
        ContainerSpec(name="berth-walls-1", labels=helper_containers.one_off_labels("walls"), **spec)
    )
    engine.ensure_container(
        ContainerSpec(name="another", labels=helper_containers.helper_labels("meter"), **spec)
    )
    helper_containers.reap_helpers(engine)
    now += helper_containers.ABANDONED_AFTER_S - 1  # another round, earlier than usual
    helper_containers.reap_helpers(engine)
    assert len(engine.list_containers({})) == 2
    now += 1
    helper_containers.reap_helpers(engine)
    assert [state.name for state in engine.list_containers({})] == ["another"]
