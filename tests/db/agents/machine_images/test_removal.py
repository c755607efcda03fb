"""Images that nobody uses are removed from full machines, if Berth brought them there."""

from datetime import timedelta
from typing import Any

import pytest

from agents.machine_images import removal
from agents.machine_images.transfers import ensure_image
from agents.models import Agent, AgentImage
from agents.runtime.port import HelperSpec, ProcessResult, RuntimeRefused
from agents.runtime.simulated.runtime import SimulatedRuntime
from common import clock
from common.actors import SYSTEM
from common.errors import Conflict
from common.models import AuditEntry
from images.models import ContainerImage
from tests.factories_images import make_machine

pytestmark = pytest.mark.django_db
HELPER = "berth/python:1"
IDS = [f"sha256:{HELPER}"]
OLD, OLDER, NEW, FOREIGN, PINNED, USED = (
    f"tools/{name}:1" for name in ("old", "older", "new", "foreign", "pinned", "used")
)
NAMES = (OLD, OLDER, NEW, FOREIGN, PINNED, USED)
DISK_BYTES = 1000


class Disk(SimulatedRuntime):
    """Machine with a disk of 1000 bytes; each image takes 100. A container that is not Berth's needs one."""

    def run_helper(self, spec: HelperSpec, *, timeout_s: int = 30) -> ProcessResult:
        super().run_helper(spec, timeout_s=timeout_s)
        used = 300 + 100 * len(self.list_images())
        return ProcessResult(exit_code=0, output=f"{used} {DISK_BYTES - used}\n".encode())

    def remove_image(self, reference: str) -> None:
        if reference == USED:
            raise RuntimeRefused("conflict: container 1234 is using its referenced image")
        super().remove_image(reference)


@pytest.fixture
def full(settings: Any) -> tuple[Agent, Any]:
    """A machine whose disk is full, with images of all kinds."""
    settings.BERTH_IMAGE_KEPT_DAYS, settings.BERTH_IMAGE_DISK_PERCENT = 30, 80
    agent, engine = make_machine([HELPER, *NAMES], kind=Disk)
    ContainerImage.objects.create(reference=PINNED, is_pinned=True)
    for name in (OLD, NEW, PINNED, HELPER, USED, OLDER):
        age = timedelta(days={OLDER: 60, USED: 90}.get(name, 40))
        AgentImage.objects.filter(reference=name).update(brought_at=clock.now() - age)
    AgentImage.objects.filter(reference=NEW).update(used_at=clock.now() - timedelta(days=2))
    return agent, engine


def there(engine: SimulatedRuntime) -> set[str]:
    return {name for image in engine.list_images() for name in image.references}


def test_what_was_unused_longest_goes_until_there_is_room(full: tuple[Agent, Any]) -> None:
    agent, engine = full
    removal.clean_machine(agent, IDS)
    assert there(engine) == {HELPER, *NAMES} - {OLD, OLDER}
    assert set(agent.images.values_list("reference", flat=True)) == there(engine)
    told = AuditEntry.objects.filter(action="agents.remove_image").values_list("changes", flat=True)
    assert {each["image"] for each in told} == {OLD, OLDER}


def test_while_there_is_room_nothing_is_removed(full: tuple[Agent, Any], settings: Any) -> None:
    agent, engine = full
    settings.BERTH_IMAGE_DISK_PERCENT = 90
    removal.clean_machine(agent, IDS)
    assert there(engine) == {HELPER, *NAMES} - {OLDER}, "one made room enough"
    settings.BERTH_IMAGE_KEPT_DAYS = 0
    settings.BERTH_IMAGE_DISK_PERCENT = 1
    removal.remove_unused_images(IDS)
    assert there(engine) == {HELPER, *NAMES} - {OLDER}


def test_image_that_a_session_uses_from_now_on_stays(full: tuple[Agent, Any]) -> None:
    agent, engine = full
    chosen = agent.images.get(reference=OLDER)
    assert ensure_image(agent, OLDER, since=clock.now())
    removal._remove(chosen, engine, SYSTEM)
    assert OLDER in there(engine)


def test_image_without_a_row_is_inspected_and_brought_again(full: tuple[Agent, Any]) -> None:
    agent, _engine = full
    removal.remove_image(actor=SYSTEM, agent_id=agent.pk, reference=OLD)
    assert not ensure_image(agent, OLD, since=clock.now())
    assert agent.image_transfers.active().get().reference == OLD


@pytest.mark.parametrize(
    ("name", "why"), [(FOREIGN, "that it brought"), (HELPER, "that it brought"), (USED, "is using")]
)
def test_what_others_need_is_not_removed_on_request(full: tuple[Agent, Any], name: str, why: str) -> None:
    agent, engine = full
    with pytest.raises(Conflict, match=why):
        removal.remove_image(actor=SYSTEM, agent_id=agent.pk, reference=name)
    assert name in there(engine)
    assert agent.images.filter(reference=name).exists()
