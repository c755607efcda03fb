"""Copies of the session image to machines that have none."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import count

import pytest

from agents.machines import image_copies
from agents.machines import service as machines_service
from agents.models import Agent
from agents.resource_groups import service as resource_groups_service
from agents.runtime.port import OutOfCapacity
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from common import clock
from common.actors import SYSTEM

pytestmark = pytest.mark.django_db
BUILT = "berth/python:2"
IDS = [f"sha256:{BUILT}", "sha256:berth/python:1"]
_numbers = count(1)


class FullDisk(SimulatedRuntime):
    tried = 0

    def import_image(self, archive: Iterable[bytes]) -> None:
        self.tried += 1
        raise OutOfCapacity("no space left on device")


def register(engine: SimulatedRuntime, address: str) -> Agent:
    name = f"copies-{next(_numbers)}"
    adopt_runtime(address.format(name), engine)
    resource_groups_service.create_resource_group(actor=SYSTEM, name=name, is_default=False)
    return machines_service.register_agent(actor=SYSTEM, name=name, address=address.format(name))


def machine(images: Sequence[str] = (), kind: type[SimulatedRuntime] = SimulatedRuntime) -> SimulatedRuntime:
    engine = kind(name=f"copies-{next(_numbers)}", images=images)
    register(engine, "tcp://{}:2376")
    return engine


@pytest.fixture
def portal() -> Agent:
    return register(SimulatedRuntime(name="copies-portal", images=[BUILT, "other:1"]), "unix:///{}.sock")


def test_machine_without_the_session_image_gets_it_from_the_portals_engine(portal: Agent) -> None:
    bare, supplied = machine(["other:1"]), machine(["berth/python:1"])
    image_copies.copy_images(IDS)
    assert bare.inspect_image(IDS[0])
    assert supplied.inspect_image(IDS[0]) is None  # an older one does


def test_failed_copy_says_why_and_is_tried_again_later(portal: Agent) -> None:
    full = machine(kind=FullDisk)
    assert isinstance(full, FullDisk)
    for seconds in (0, 60, 601):
        with clock.frozen_at(clock.now() + timedelta(seconds=seconds)):
            image_copies.copy_images(IDS)
    assert full.tried == 2
    agent = Agent.objects.get(engine_id=full.info().engine_id)
    assert agent.data["image_copy"]["error"] == "no space left on device"


def test_without_the_image_on_the_portals_engine_nothing_is_copied() -> None:
    bare = machine()
    image_copies.copy_images(IDS)
    assert bare.list_images() == []
