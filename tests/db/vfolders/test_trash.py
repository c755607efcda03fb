"""Trash: putting aside, restoring, expiry, deletion for ever."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings

from common import clock
from common.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from common.models import AuditEntry
from tests.conftest import People
from tests.factories import actor_for
from tests.factories_folders import make_folder, make_share, make_storage_host
from tests.factories_limits import use_of
from vfolders import services, trash
from vfolders.core.modes import FolderMode
from vfolders.core.permissions import Right
from vfolders.core.states import FolderState
from vfolders.models import VFolder
from vfolders.selectors import mount_source, trashed_folders, visible_folders

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def host(db: None, tmp_path: Path) -> None:
    make_storage_host(tmp_path)


def test_a_folder_in_the_trash_is_hidden_counts_and_comes_back(people: People) -> None:
    actor, folder = actor_for(people.member), make_folder(people.member, name="data")
    marked = Path(mount_source(folder), "kept")
    marked.write_text("x")

    trashed = trash.trash_folder(actor=actor, folder_id=folder.pk)
    trash.trash_folder(actor=actor, folder_id=folder.pk)

    assert trashed.expires_at == trashed.trashed_at + timedelta(days=settings.BERTH_TRASH_DAYS)
    assert trashed.trashed_by == people.member
    assert not visible_folders(actor).exists()
    assert [each.pk for each in trashed_folders(actor)] == [folder.pk]
    assert not trashed_folders(actor_for(people.project_admin)).exists()
    assert use_of(people.member)["folders"] == 1

    restored = trash.restore_folder(actor=actor, folder_id=folder.pk)
    assert (restored.state, restored.expires_at) == (FolderState.READY, None)
    assert marked.read_text() == "x"
    done = set(AuditEntry.objects.filter(target_id=str(folder.pk)).values_list("action", flat=True))
    assert {"vfolders.trash_folder", "vfolders.restore_folder"} <= done


def test_a_name_that_was_taken_meanwhile_is_given_another_at_restore(people: People) -> None:
    actor, folder = actor_for(people.member), make_folder(people.member, name="data")
    trash.trash_folder(actor=actor, folder_id=folder.pk)
    make_folder(people.member, name="data")

    with pytest.raises(Conflict, match="“data” already") as taken:
        trash.restore_folder(actor=actor, folder_id=folder.pk)

    assert "name" in taken.value.fields
    make_share(folder, people.outsider, right=Right.DELETE)
    with pytest.raises(PermissionDenied):
        trash.restore_folder(actor=actor_for(people.outsider), folder_id=folder.pk, name="mine")
    assert trash.restore_folder(actor=actor, folder_id=folder.pk, name="old").name == "old"


def test_folders_leave_the_trash_for_ever_by_name_or_with_time(people: People) -> None:
    actor = actor_for(people.member)
    typed, expired, young = (make_folder(people.member) for _ in range(3))
    for folder in (typed, expired):
        trash.trash_folder(actor=actor, folder_id=folder.pk)
    with pytest.raises(InvalidInput):
        trash.purge_folder(actor=actor, folder_id=typed.pk, name="another")
    trash.purge_folder(actor=actor, folder_id=typed.pk, name=typed.name)
    with pytest.raises(NotFound):
        trash.restore_folder(actor=actor, folder_id=typed.pk)
    with pytest.raises(NotFound):
        trash.purge_folder(actor=actor, folder_id=young.pk, name=young.name)

    trash.trash_folder(actor=actor, folder_id=young.pk)
    assert trash.delete_expired() == 0
    VFolder.objects.filter(pk=expired.pk).update(expires_at=clock.now())
    assert trash.delete_expired() == 1

    assert services.purge_folders() == 2
    assert list(VFolder.objects.all()) == [young]
    assert use_of(people.member)["folders"] == 1


def test_only_those_who_may_delete_see_and_use_the_trash(people: People) -> None:
    folder = make_folder(people.project_admin, project=people.project)
    with pytest.raises(PermissionDenied):
        trash.trash_folder(actor=actor_for(people.member), folder_id=folder.pk)
    trash.trash_folder(actor=actor_for(people.project_admin), folder_id=folder.pk)

    for refused in (people.member, people.outsider):
        assert not trashed_folders(actor_for(refused)).exists()
        with pytest.raises(NotFound):
            trash.restore_folder(actor=actor_for(refused), folder_id=folder.pk)
    assert trashed_folders(actor_for(people.domain_admin)).count() == 1


def test_renaming_and_modes(people: People) -> None:
    actor, folder = actor_for(people.member), make_folder(people.member, name="data")
    make_folder(people.member, name="taken")
    dotted = services.create_folder(actor=actor, name=".cache", mode=FolderMode.AUTO_MOUNT)

    assert services.rename_folder(actor=actor, folder_id=folder.pk, name="better").name == "better"
    with pytest.raises(Conflict):
        services.rename_folder(actor=actor, folder_id=folder.pk, name="taken")
    for wrong in (".hidden", "a/b", ""):
        with pytest.raises(InvalidInput):
            services.rename_folder(actor=actor, folder_id=folder.pk, name=wrong)
    for wrong in ("plain", ".", "..", ".berth-x", ".a b"):
        with pytest.raises(InvalidInput):
            services.rename_folder(actor=actor, folder_id=dotted.pk, name=wrong)

    services.change_mode(actor=actor, folder_id=folder.pk, mode=FolderMode.MODEL)
    assert VFolder.objects.get(pk=folder.pk).mode == "model"
    for each, mode in ((folder, FolderMode.AUTO_MOUNT), (dotted, FolderMode.DATA)):
        with pytest.raises(InvalidInput):
            services.change_mode(actor=actor, folder_id=each.pk, mode=mode)
    with pytest.raises(InvalidInput, match="project"):
        services.create_folder(
            actor=actor, name=".shared", project=people.project.name, mode=FolderMode.AUTO_MOUNT
        )
