"""People are warned once at each step of a byte limit, and again after its use fell below."""

from pathlib import Path

import pytest

from accounts.core.roles import Role
from accounts.models import User
from portal.models import Notification
from portal.tasks import notify_of_storage
from tests.factories import make_project, make_user
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit
from vfolders.models import StorageHost, VFolder


def told(person: User) -> list[tuple[str, str]]:
    rows = Notification.objects.filter(person=person).order_by("pk")
    return [(row.code, row.arguments["percent"]) for row in rows]


@pytest.fixture
def host(db: None, tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


def test_each_step_is_told_once_and_again_after_a_fall(host: StorageHost) -> None:
    owner = make_user(member_of=make_project())
    limit(owner, max_folder_bytes=1000)
    folder = make_folder(owner)
    for size in (790, 800, 820, 780, 800, 700, 850, 960, 1100):
        VFolder.objects.filter(pk=folder.pk).update(size_bytes=size)
        notify_of_storage()
        notify_of_storage()
    assert told(owner) == [
        ("storage_filling", "80"), ("storage_filling", "85"), ("storage_filling", "96"), ("storage_full", "110"),
    ]  # fmt: skip


def test_those_responsible_are_told(host: StorageHost) -> None:
    project = make_project()
    owner, member = make_user(member_of=project), make_user(member_of=project)
    admin = make_user(admin_of=project)
    governor = make_user(domain=project.domain, role=Role.DOMAIN_ADMIN)
    superadmin = make_user(role=Role.SUPERADMIN)
    own, shared = make_folder(owner, name="own"), make_folder(member, name="shared", project=project)
    VFolder.objects.filter(pk=own.pk).update(size_bytes=90, quota_bytes=100)
    VFolder.objects.filter(pk=shared.pk).update(size_bytes=900)
    limit(project, max_folder_bytes=1000)
    limit(project.domain, max_folder_bytes=1000)
    StorageHost.objects.update(max_bytes=1000, max_user_bytes=110, max_project_bytes=1000)
    notify_of_storage()
    names = {
        person.email: sorted(
            Notification.objects.filter(person=person).values_list("arguments__name", flat=True)
        )
        for person in (owner, member, admin, governor, superadmin)
    }
    assert names == {
        owner.email: sorted([f"{owner.email} @ local", "own"]),
        member.email: [],
        admin.email: sorted([project.name, f"{project.name} @ local"]),
        governor.email: [project.domain.name],
        superadmin.email: ["local"],
    }
