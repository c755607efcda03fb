"""Images are brought to machines that need them: pulled, else copied, one transfer at a time."""

import threading
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from agents import tasks
from agents.core.states import AgentState
from agents.machine_images import runner, transfers
from agents.machines.observation import observe
from agents.machines.service import record_heartbeat
from agents.models import TIME_LIMIT, Agent, AgentImage, ImageTransfer
from agents.runtime.port import (
    ImageInfo,
    OnProgress,
    OutOfCapacity,
    PullProgress,
    RegistryCredentials,
    RuntimeUnavailable,
)
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.runtime.simulated.values import image as simulated_image
from common import clock
from common.actors import SYSTEM
from common.errors import Conflict
from images.models import ContainerImage, Registry
from tests.factories_images import carry_all, make_machine
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db
NAME = "tools/solver:1"


def make_image(*, registry: Registry | None = None) -> ContainerImage:
    return ContainerImage.objects.create(reference=NAME, architecture="x86_64", registry=registry)


def make_registry() -> Registry:
    registry = Registry(name="hub", host="tools", url="https://hub.example", username="puller")
    registry.set_password("s3cret")
    registry.save()
    return registry


class Puller(SimulatedRuntime):
    """Engine that remembers who pulls, and how much the database knew of it in the middle."""

    seen: tuple[RegistryCredentials | None, int] | None = None

    def pull_image(
        self, reference: str, *, on_progress: OnProgress, credentials: RegistryCredentials | None = None
    ) -> ImageInfo:
        on_progress(PullProgress(120, 480, 0, 2))
        self.seen = credentials, ImageTransfer.objects.get(ended_at=None).done_bytes
        return super().pull_image(reference, on_progress=on_progress, credentials=credentials)


class FullDisk(SimulatedRuntime):
    tried = 0

    def import_image(self, archive: Iterable[bytes]) -> None:
        self.tried += 1
        raise OutOfCapacity("no space left on device")


class Breaking(SimulatedRuntime):
    """Engine that is gone in the middle of an image."""

    def export_image(self, reference: str) -> Iterator[bytes]:
        yield b"half"
        raise RuntimeUnavailable("Engine does not answer: gone")


class Hanging(SimulatedRuntime):
    def inspect_image(self, reference: str) -> ImageInfo | None:
        raise RuntimeUnavailable("Engine does not answer: hangs")


class Stuck(SimulatedRuntime):
    """Engine that takes an image and is silent until it `goes_on`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.has_begun, self.goes_on = threading.Event(), threading.Event()

    def import_image(self, archive: Iterable[bytes]) -> None:
        self.has_begun.set()
        self.goes_on.wait(60)
        super().import_image(archive)


class Killed(Exception):
    """The worker is killed."""


class KilledWhileLoading(SimulatedRuntime):
    """Engine whose caller dies once, after it has loaded an image."""

    is_first = True

    def import_image(self, archive: Iterable[bytes]) -> None:
        super().import_image(archive)
        if self.is_first:
            self.is_first = False
            raise Killed


def last_of(agent: Agent) -> ImageTransfer:
    return agent.image_transfers.select_related("source")[0]


def test_image_is_pulled_with_the_credentials_of_its_registry_and_progress_is_recorded() -> None:
    make_image(registry=make_registry())
    agent, engine = make_machine(kind=Puller, registry=[NAME])
    transfers.request_transfer(agent, NAME)
    carry_all()
    assert engine.seen == (RegistryCredentials("puller", "s3cret"), 120)
    row = agent.images.get(reference=NAME)
    assert row.brought_at is not None
    assert (last_of(agent).state, last_of(agent).source) == ("done", None)
    assert "s3cret" not in Registry.objects.values_list("password", flat=True).get()


def test_image_that_its_registry_refuses_is_copied_from_a_machine_that_has_it() -> None:
    make_image(registry=make_registry())
    holder, _engine = make_machine([NAME])
    agent, engine = make_machine()
    transfers.request_transfer(agent, NAME)
    carry_all()
    assert engine.inspect_image(NAME)
    assert last_of(agent).source == holder


def test_copy_tries_the_next_machine_when_one_stops_sending() -> None:
    make_image()
    make_machine([NAME], kind=Breaking)
    good, _engine = make_machine([NAME])
    agent, engine = make_machine()
    transfers.request_transfer(agent, NAME)
    carry_all()
    assert engine.inspect_image(NAME)
    assert (last_of(agent).state, last_of(agent).source) == ("done", good)


def test_copy_comes_first_from_the_content_that_the_portal_knows() -> None:
    ContainerImage.objects.create(
        reference=NAME, architecture="x86_64", digest=simulated_image(NAME).image_id
    )
    other, _engine = make_machine([NAME])
    AgentImage.objects.filter(agent=other).update(image_id="sha256:older")
    right, _engine = make_machine([NAME])
    agent, _engine = make_machine()
    transfers.request_transfer(agent, NAME)
    carry_all()
    assert last_of(agent).source == right


def test_image_that_nobody_has_fails_with_what_is_missing() -> None:
    agent, _engine = make_machine()
    transfers.request_transfer(agent, NAME)
    carry_all()
    assert (last_of(agent).state, last_of(agent).error_code) == ("failed", "image_missing")
    assert NAME in last_of(agent).error


def test_image_comes_once_to_a_machine_however_often_it_is_requested() -> None:
    agent, _engine = make_machine()
    assert transfers.request_transfer(agent, NAME) == transfers.request_transfer(agent, NAME)


def test_image_that_is_there_already_is_not_counted_as_brought() -> None:
    agent, _engine = make_machine([NAME])
    transfers.request_transfer(agent, NAME)
    carry_all()
    assert (last_of(agent).state, agent.images.get().brought_at) == ("done", None)


def test_killed_worker_leaves_a_transfer_that_the_next_one_ends() -> None:
    make_image()
    make_machine([NAME])
    agent, _engine = make_machine(kind=KilledWhileLoading)
    transfers.request_transfer(agent, NAME)
    with pytest.raises(Killed):
        carry_all()
    assert last_of(agent).state == "running"
    carry_all()
    assert last_of(agent).state == "done"
    assert agent.images.get(reference=NAME).brought_at, "its first half was Berth's, too"


def test_hung_engine_keeps_its_transfer_and_delays_no_other_until_it_is_too_late() -> None:
    make_image()
    make_machine([NAME])
    hung, _engine = make_machine(kind=Hanging)
    agent, _engine = make_machine()
    for each in (hung, agent):
        transfers.request_transfer(each, NAME)
    carry_all()
    assert (last_of(hung).state, last_of(agent).state) == ("waiting", "done")
    with clock.frozen_at(clock.now() + TIME_LIMIT + timedelta(seconds=1)):
        runner.fail_late_transfers()
    assert (last_of(hung).state, last_of(hung).error) == (
        "failed",
        f"{NAME} did not arrive within 60 minutes.",
    )


def test_heartbeat_that_was_late_does_not_forget_what_was_brought() -> None:
    make_image()
    make_machine([NAME])
    agent, engine = make_machine()
    before = observe(engine)
    transfers.request_transfer(agent, NAME)
    carry_all()
    record_heartbeat(agent.pk, before)
    assert agent.images.get(reference=NAME).brought_at
    with clock.frozen_at(clock.now() + timedelta(minutes=2)):
        record_heartbeat(agent.pk, before)
    assert not agent.images.filter(reference=NAME).exists()


@pytest.mark.django_db(transaction=True)
def test_each_machine_has_a_thread_and_one_that_hangs_keeps_only_its_own() -> None:
    make_image()
    make_machine([NAME])
    stuck, engine = make_machine(kind=Stuck)
    agent, _engine = make_machine()
    for each in (stuck, agent):
        transfers.request_transfer(each, NAME)
    try:
        tasks.transfer_images()
        assert engine.has_begun.wait(30)
        wait_until(lambda: last_of(agent).state == "done")
        assert last_of(stuck).state == "running"
    finally:
        engine.goes_on.set()
    wait_until(lambda: last_of(stuck).state == "done")
    wait_until(lambda: runner._pool.is_idle)


# Before sessions need it


def test_image_is_brought_to_the_machines_that_can_run_it() -> None:
    image = make_image()
    agent, _engine = make_machine()
    foreign, _engine = make_machine()
    retired, _engine = make_machine()
    Agent.objects.filter(pk=foreign.pk).update(architecture="aarch64")
    Agent.objects.filter(pk=retired.pk).update(state=AgentState.RETIRED)
    [made] = transfers.bring_image(actor=SYSTEM, image=image, agents=Agent.objects.all())
    assert made.agent == agent
    with pytest.raises(Conflict, match="None of these machines"):
        transfers.bring_image(actor=SYSTEM, image=image, agents=Agent.objects.filter(pk=foreign.pk))


# The image of helpers

BUILT = "berth/python:2"
IDS = [f"sha256:{BUILT}", "sha256:berth/python:1"]


def supply() -> None:
    transfers.supply_machines(IDS)
    carry_all()


def test_machine_without_the_session_image_gets_it() -> None:
    ContainerImage.objects.create(reference=BUILT, digest=IDS[0], architecture="x86_64")
    make_machine([BUILT, "other:1"], address="unix:///{}.sock")
    bare, bare_engine = make_machine(["other:1"], address="tcp://{}:2376")
    _agent, supplied = make_machine(["berth/python:1"], address="tcp://{}:2376")
    Agent.objects.filter(pk=bare.pk).update(data={"discovery": {"problems": {}}})
    supply()
    assert bare_engine.inspect_image(IDS[0])
    assert supplied.inspect_image(IDS[0]) is None  # an older one does
    bare.refresh_from_db()
    assert "discovery" not in bare.data, "its devices are looked for again"


def test_failed_supply_says_why_and_is_tried_again_later() -> None:
    make_machine([BUILT], address="unix:///{}.sock")
    agent, full = make_machine(kind=FullDisk, address="tcp://{}:2376")
    for seconds in (0, 60, 700):
        with clock.frozen_at(clock.now() + timedelta(seconds=seconds)):
            supply()
    assert full.tried == 2
    assert last_of(agent).error == "no space left on device"
