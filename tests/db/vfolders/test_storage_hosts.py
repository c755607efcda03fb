"""Storage hosts: added, changed, checked, restricted and removed."""

import shutil
from pathlib import Path

import pytest
from django.conf import settings

from accounts.models import ResourcePolicy
from common.actors import SYSTEM
from common.errors import Conflict, InvalidInput, PermissionDenied
from tests.conftest import People
from tests.factories import actor_for
from tests.factories_folders import make_share
from vfolders import services
from vfolders.core.host_rights import HostRight
from vfolders.core.permissions import Action
from vfolders.hosts import service
from vfolders.hosts.health import check_hosts
from vfolders.hosts.service import Grant
from vfolders.models import StorageHost, VFolder
from vfolders.selectors import actions_on, folder_mount, mount_actions, mount_source, visible_folders
from vfolders.sharing.transfer import give_folder
from vfolders.storage.base import StorageUnavailable
from vfolders.storage.mounts import is_mounted
from vfolders.storage.registry import mount_point
from vfolders.storage.secret_files import write_secret_file

pytestmark = pytest.mark.django_db


@pytest.fixture
def disk() -> StorageHost:
    return service.add_host(actor=SYSTEM, name="disk", kind="local", settings={"root": "disk"})


def test_an_added_host_takes_folders_until_it_is_removed(people: People, disk: StorageHost) -> None:
    folder = services.create_folder(actor=actor_for(people.member), name="data", host="disk")
    assert Path(mount_source(folder)).parent == Path(settings.DATA_DIR, "disk")
    assert (disk.is_active, disk.error, disk.total_bytes > 0) == (True, "", True)

    with pytest.raises(Conflict, match="1 folder"):
        service.remove_host(actor=SYSTEM, host_id=disk.pk)
    VFolder.objects.all().delete()
    secret = Path(write_secret_file(mount_point(f"{disk.pk}") + ".keyring", "key"))
    service.remove_host(actor=SYSTEM, host_id=disk.pk)
    assert not secret.exists()
    assert not StorageHost.objects.filter(name="disk").exists()


def test_a_host_of_images_mounts_a_folder_with_its_quota_and_again_after_a_restart(people: People) -> None:
    host = service.add_host(actor=SYSTEM, name="images", kind="loop", settings={"root": "images"})
    folder = services.create_folder(actor=actor_for(people.member), name="data", host="images")
    path = mount_source(folder)
    assert folder_mount(folder, is_portal_machine=True).source == path
    assert is_mounted(path)

    with service.backend_of(host).opened(folder.pk):
        pass
    service.backend_of(host).detach()
    with pytest.raises(StorageUnavailable):
        mount_source(folder)
    services.mark_storage()
    assert is_mounted(mount_source(folder))

    service.backend_of(host).delete_folder(folder.pk)
    service.backend_of(host).detach()
    assert not is_mounted(path)


def test_wrong_settings_are_refused_by_field_and_a_machine_that_lacks_programs_says_so() -> None:
    for kind, given, field in (
        ("tape", {}, "kind"),
        ("loop", {"root": "x", "folder_gib": "many"}, "folder_gib"),
        ("loop", {"root": "x", "colour": "red"}, "settings"),
        ("nfs", {"server": "-o evil", "export": "/x"}, "server"),
        ("nfs", {"server": "nas", "export": "x"}, "export"),
        ("nfs", {"server": "nas", "export": "/x", "options": "rw soft"}, "options"),
        ("smb", {"server": "nas", "share": "x", "user": "u"}, "password"),
    ):
        with pytest.raises(InvalidInput) as refused:
            service.add_host(actor=SYSTEM, name="nas", kind=kind, settings=given)
        assert list(refused.value.fields) == [field]
    with pytest.raises(StorageUnavailable, match=r"mount.nfs \(Debian package nfs-common\)"):
        service.add_host(actor=SYSTEM, name="nas", kind="nfs", settings={"server": "nas", "export": "/x"})
    assert not StorageHost.objects.filter(name="nas").exists()


def test_new_settings_are_tried_before_they_stay(disk: StorageHost, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageUnavailable):
        service.change_host(actor=SYSTEM, host_id=disk.pk, settings={"root": str(tmp_path / "file" / "x")})
    assert StorageHost.objects.get(pk=disk.pk).config == {"root": "disk"}
    service.change_host(
        actor=SYSTEM, host_id=disk.pk, settings={"root": str(tmp_path / "new")}, is_active=False
    )
    disk.refresh_from_db()
    assert (disk.config, disk.is_active) == ({"root": str(tmp_path / "new")}, False)


def test_a_host_with_folders_goes_only_where_they_are(
    people: People, disk: StorageHost, tmp_path: Path
) -> None:
    services.create_folder(actor=actor_for(people.member), name="data", host="disk")
    moved = {"root": str(tmp_path / "new")}
    with pytest.raises(StorageUnavailable, match="are not there"):
        service.change_host(actor=SYSTEM, host_id=disk.pk, settings=moved)
    shutil.rmtree(tmp_path / "new")
    shutil.move(Path(settings.DATA_DIR, "disk"), tmp_path / "new")
    assert service.change_host(actor=SYSTEM, host_id=disk.pk, settings=moved).config == moved


def test_no_folders_come_on_a_host_that_is_away_until_it_is_back(people: People, disk: StorageHost) -> None:
    root, away = Path(settings.DATA_DIR, "disk"), Path(settings.DATA_DIR, "away")
    shutil.move(root, away)
    check_hosts(StorageHost.objects.filter(pk=disk.pk))
    with pytest.raises(StorageUnavailable, match="“disk” is unhealthy"):
        services.create_folder(actor=actor_for(people.member), name="data", host="disk")
    assert not root.exists()

    shutil.move(away, root)
    assert service.probe_host(actor=SYSTEM, host_id=disk.pk).error == ""
    services.create_folder(actor=actor_for(people.member), name="data", host="disk")


def test_on_a_restricted_host_people_have_only_the_rights_that_were_granted(
    people: People, disk: StorageHost
) -> None:
    member, admin = actor_for(people.member), actor_for(people.domain_admin)
    folder = services.create_folder(actor=member, name="data", host="disk")

    def actions() -> frozenset[Action]:
        return actions_on(member, visible_folders(member).get(pk=folder.pk))

    service.restrict_host(actor=SYSTEM, host_id=disk.pk, grants=[])
    assert actions() == {Action.VIEW}
    assert Action.DELETE in actions_on(admin, visible_folders(admin).get(pk=folder.pk))
    with pytest.raises(PermissionDenied, match="“disk”"):
        services.create_folder(actor=member, name="more", host="disk")
    with pytest.raises(PermissionDenied, match="“disk”"):
        give_folder(actor=SYSTEM, folder_id=folder.pk, heir=people.outsider, is_limited=True)

    policy = ResourcePolicy.objects.create(name="readers")
    people.member.policy = policy
    people.member.save()
    domain = people.member.domain.name
    grants = [
        Grant("domain", domain, HostRight.CREATE | HostRight.DOWNLOAD),
        Grant("policy", "readers", HostRight.MOUNT),
    ]
    service.restrict_host(actor=SYSTEM, host_id=disk.pk, grants=grants)
    assert actions() == {Action.VIEW, Action.READ, Action.MOUNT, Action.MOUNT_READONLY}
    services.create_folder(actor=member, name="more", host="disk")

    folder = VFolder.objects.get(pk=folder.pk)  # with its host as it is now
    pair, of_admin = (people.member.pk, folder), (people.domain_admin.pk, folder)
    make_share(folder, people.domain_admin)
    assert mount_actions([pair])[pair] == {Action.VIEW, Action.READ, Action.MOUNT, Action.MOUNT_READONLY}
    service.restrict_host(actor=SYSTEM, host_id=disk.pk, grants=grants[:1])
    rights = mount_actions([pair, of_admin])
    assert rights[pair] == {Action.VIEW, Action.READ}
    assert Action.MOUNT_READONLY in rights[of_admin]

    service.restrict_host(actor=SYSTEM, host_id=disk.pk, grants=None)
    assert Action.SHARE in actions()
    with pytest.raises(InvalidInput, match="no project"):
        service.restrict_host(actor=SYSTEM, host_id=disk.pk, grants=[Grant("project", "a/b", HostRight(1))])
    with pytest.raises(PermissionDenied):
        service.restrict_host(actor=member, host_id=disk.pk, grants=None)
