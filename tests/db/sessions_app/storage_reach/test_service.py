"""Proofs that machines reach storage hosts, settings, and what the scheduler makes of them."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agents.models import Agent
from agents.runtime.port import HelperSpec, ProcessResult
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from common import clock
from common.actors import SYSTEM
from common.errors import InvalidInput
from images.models import ContainerImage
from sessions_app.models import StorageReach
from sessions_app.storage_reach import service
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place, make_place
from vfolders.models import StorageHost
from vfolders.selectors import folder_mount
from vfolders.storage.base import StorageUnavailable

pytestmark = pytest.mark.django_db
BUILT = "berth/python:1"


class Sharing(SimulatedRuntime):
    """An engine whose helpers see what is mounted, with the program of the proof played here."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.at: Callable[[str], str] = lambda path: path
        self.proofs = 0
        self.answer_helper = self._look

    def _look(self, spec: HelperSpec) -> ProcessResult:
        self.proofs += 1
        _sh, _c, _program, _name, _target, word, answer, _user = spec.command
        mount = spec.mounts[0]
        directory = Path(self.at(mount.options.get("device", mount.source)))
        if not (directory / word).exists():
            return ProcessResult(3, b"")
        (directory / answer).write_text(answer)
        return ProcessResult(0, b"")


@pytest.fixture
def host(tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


@pytest.fixture
def place(host: StorageHost) -> Place:
    """A group whose only machine is not the portal's."""
    place = make_place()
    Agent.objects.update(address="tcp://second:2376", storage_hosts=[])
    place.agent.refresh_from_db()
    engine = Sharing(name="second", images=[place.image.reference, BUILT])
    adopt_runtime(place.agent.address, engine)
    place.runtime = engine
    ContainerImage.objects.create(reference=BUILT, digest=f"sha256:{BUILT}")
    return place


def reach(host: StorageHost, **changes: Any) -> None:
    service.change_reach(actor=SYSTEM, host_id=host.pk, changes=changes)
    service.keep_proofs()


def path_of(host: StorageHost) -> str:
    return str(host.config["root"])


def test_session_waits_until_its_machine_proves_the_host(host: StorageHost, place: Place) -> None:
    service.keep_proofs()
    waiting = place.place(mounts=[{"folder": make_folder(place.owner).name}])
    assert (waiting.status, waiting.status_reason) == ("PENDING", "storage_unreached")
    assert "reaches the storage host of its folders: local. " in str(waiting.status_message)
    assert place.place().status == "SCHEDULED"  # without folders
    reach(host, reach="path", agent_path=path_of(host))
    place.place()
    assert place.fresh(waiting).status == "SCHEDULED"


@pytest.mark.parametrize("kind", ["path", "volume"])
def test_machine_with_other_files_reaches_nothing(
    host: StorageHost, place: Place, tmp_path: Path, kind: str
) -> None:
    options = {"type": "nfs", "o": "addr=10.0.0.5", "device": ":/export"}
    changes = {"agent_path": "/export"} if kind == "path" else {"volume_options": options}
    assert isinstance(place.runtime, Sharing)
    place.runtime.at = lambda path: path.lstrip(":").replace("/export", str(tmp_path / "other"))
    reach(host, reach=kind, **changes)
    row = StorageReach.objects.get()
    assert (row.is_reached, row.error[:42]) == (False, "What the machine has there is not the host")
    place.runtime.at = lambda path: path.lstrip(":").replace("/export", path_of(host))
    with clock.frozen_at(clock.now() + timedelta(minutes=2)):
        service.keep_proofs()
    place.agent.refresh_from_db()
    assert place.agent.storage_hosts == ["local"]


def test_proof_is_repeated_after_minutes_a_boot_and_on_demand(host: StorageHost, place: Place) -> None:
    reach(host, reach="path", agent_path=path_of(host))
    assert isinstance(place.runtime, Sharing)
    service.keep_proofs()
    assert place.runtime.proofs == 1
    Agent.objects.update(data={"life_id": "another"})
    service.keep_proofs()
    service.check_host(actor=SYSTEM, host_id=host.pk)
    service.keep_proofs()
    with clock.frozen_at(clock.now() + timedelta(minutes=6)):
        service.keep_proofs()
    assert place.runtime.proofs == 4
    assert list(Path(path_of(host)).iterdir()) == []


def test_changed_settings_are_not_trusted_before_they_are_proven(host: StorageHost, place: Place) -> None:
    reach(host, reach="path", agent_path=path_of(host))
    service.change_reach(actor=SYSTEM, host_id=host.pk, changes={"agent_path": "/srv/new"})
    place.agent.refresh_from_db()
    assert place.agent.storage_hosts == []


def test_folder_is_mounted_by_path_or_by_a_volume_of_its_own(host: StorageHost, place: Place) -> None:
    folder = make_folder(place.owner)
    with pytest.raises(StorageUnavailable, match="local to the portal's machine"):
        folder_mount(folder, is_portal_machine=False)
    reach(host, reach="path", agent_path="/srv/folders")
    folder.refresh_from_db()
    assert folder_mount(folder, is_portal_machine=False).source == f"/srv/folders/{folder.pk.hex}"
    options = {"type": "cifs", "o": "addr=s,password={secret}", "device": "//s/share"}
    reach(host, reach="volume", volume_options=options, secret="hunter2")
    folder.refresh_from_db()
    found = folder_mount(folder, is_portal_machine=False).options
    assert found["device"] == f"//s/share/{folder.pk.hex}"
    assert found["o"] == "addr=s,password=hunter2,nosuid,nodev"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"reach": "path", "agent_path": "srv"}, "agent_path"),
        ({"reach": "path", "agent_path": "/srv/../etc"}, "agent_path"),
        ({"reach": "volume", "volume_options": {"type": "tmpfs", "device": "x"}}, "type"),
        ({"reach": "volume", "volume_options": {"type": "nfs", "device": "//s/x"}}, "device"),
        ({"reach": "volume", "volume_options": {"type": "nfs", "o": "a b", "device": ":/x"}}, "o"),
        ({"reach": "volume", "volume_options": {"type": "none", "o": "", "device": "/x"}}, "o"),
        ({"reach": "volume", "volume_options": {"type": "cifs", "o": "password=x", "device": "//s/x"}}, "o"),
        (
            {
                "reach": "volume",
                "volume_options": {"type": "cifs", "o": "password={secret}", "device": "//s/x"},
            },
            "o",
        ),
    ],
)
def test_settings_that_no_machine_can_mount_are_refused(
    host: StorageHost, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        service.change_reach(actor=SYSTEM, host_id=host.pk, changes=changes)
    assert list(caught.value.fields) == [field]
