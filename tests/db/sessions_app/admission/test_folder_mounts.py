"""Folders that sessions get: directories in them, and those that are mounted automatically."""

from pathlib import Path

import pytest

from common.errors import BerthError
from sessions_app.models import SessionMount
from sessions_app.session_templates.quick_start import session_request_body
from tests.factories import actor_for
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place
from vfolders import services, trash
from vfolders.core.modes import FolderMode
from vfolders.models import StorageHost
from vfolders.ports import FolderInUse
from vfolders.selectors import mount_source

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def host(place: Place, tmp_path: Path) -> None:
    make_storage_host(tmp_path)


def mounts_of(place: Place, **request: object) -> list[tuple[str, str, bool]]:
    session = place.enqueue(**request)
    rows = SessionMount.objects.filter(session=session)
    return [(mount.reference, mount.path, mount.is_automatic) for mount in rows]


def test_a_directory_of_a_folder_is_mounted_if_it_is_one(place: Place) -> None:
    folder = Path(mount_source(make_folder(place.owner, name="data")))
    (folder / "raw" / "été").mkdir(parents=True)
    (folder / "raw" / "link").symlink_to("/etc")
    (folder / "file").write_text("x")

    assert mounts_of(place, mounts=[{"folder": "data/raw/été"}]) == [
        ("data/raw/été", "/home/work/data", False)
    ]
    for wrong in ("data/none", "data/raw/link", "data/raw/link/x", "data/file"):
        with pytest.raises(BerthError) as refused:
            place.enqueue(mounts=[{"folder": wrong, "path": "/home/work/x"}])
        assert list(refused.value.fields) == ["mounts.0.folder"], wrong


def test_auto_mount_folders_are_in_all_sessions_of_their_owner(place: Place) -> None:
    actor = actor_for(place.owner)
    services.create_folder(actor=actor, name=".cache", mode=FolderMode.AUTO_MOUNT)
    make_folder(place.owner, name="data")

    both = [{"folder": "data"}, {"folder": ".cache", "path": "/home/work/other"}]
    assert mounts_of(place) == [(".cache", "/home/work/.cache", True)]
    assert mounts_of(place, mounts=both) == [
        ("data", "/home/work/data", False),
        (".cache", "/home/work/other", False),
    ]
    elsewhere = [{"folder": "data", "path": "/home/work/.cache"}]
    assert mounts_of(place, mounts=elsewhere) == [("data", "/home/work/.cache", False)]
    assert mounts_of(place, personal_files=False) == []
    StorageHost.objects.update(is_restricted=True)
    assert mounts_of(place) == [], "their host denies to mount them"


def test_a_copy_of_a_session_asks_for_what_was_asked_for(place: Place) -> None:
    services.create_folder(actor=actor_for(place.owner), name=".cache", mode=FolderMode.AUTO_MOUNT)
    folder = make_folder(place.owner, name="data")
    Path(mount_source(folder), "raw").mkdir()

    session = place.enqueue(mounts=[{"folder": "data/raw"}])

    mounts = session_request_body(session, name="copy")["mounts"]
    assert mounts == [{"folder": f"{folder.pk}/raw", "path": "/home/work/data", "readonly": False}]


def test_a_mounted_folder_names_its_live_sessions_when_it_should_go(place: Place) -> None:
    folder = make_folder(place.owner, name="data")
    session = place.enqueue(mounts=[{"folder": "data"}])

    with pytest.raises(FolderInUse) as refused:
        trash.trash_folder(actor=actor_for(place.owner), folder_id=folder.pk)

    use = {"id": str(session.pk), "name": session.name, "url": f"/sessions/{session.pk}/"}
    assert refused.value.to_json()["sessions"] == [use]
