"""Quotas of folders and limits of storage hosts: who sets them, and what they refuse."""

import threading
from pathlib import Path

import pytest

from accounts.core.roles import Role
from accounts.models import Project, User
from common.errors import BerthError, InvalidInput, LimitExceeded, NotFound, PermissionDenied
from tests.factories import actor_for, make_project, make_user
from tests.factories_folders import make_folder, make_storage_host, superadmin_actor
from tests.factories_limits import limit
from tests.factories_sessions import make_place
from vfolders import usage
from vfolders.files import service as files
from vfolders.models import StorageHost, VFolder
from vfolders.quotas import service as quotas
from vfolders.quotas.selectors import byte_limits
from vfolders.quotas.service import set_folder_quota, set_host_limits
from vfolders.services import create_folder
from vfolders.storage.base import Capability, StorageUnavailable

KIB = 1024


@pytest.fixture
def host(db: None, tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


@pytest.fixture
def project(host: StorageHost) -> Project:
    return make_project()


@pytest.fixture
def owner(project: Project) -> User:
    return make_user(member_of=project)


def upload(folder: VFolder, user: User, path: str, size: int) -> None:
    files.write_file(actor=actor_for(user), folder_id=folder.pk, path=path, chunks=[b"x" * size])


def quota_by(user: User, folder: VFolder, quota_bytes: int | None) -> VFolder:
    return set_folder_quota(actor=actor_for(user), folder_id=folder.pk, quota_bytes=quota_bytes)


def test_a_full_folder_takes_no_upload_and_no_session_that_writes(db: None, tmp_path: Path) -> None:
    make_storage_host(tmp_path)
    place = make_place()
    folder = make_folder(place.owner, name="data")
    make_folder(place.owner, name="other")
    quota_by(place.owner, folder, 4 * KIB)
    upload(folder, place.owner, "a", 4 * KIB)
    with pytest.raises(LimitExceeded) as refused:
        upload(folder, place.owner, "b", KIB)
    assert refused.value.message == (
        "The folder “data” has 0 B left of 4 KiB for folders; you asked for 1 KiB."
    )
    assert [(each["level"], each["scope"]) for each in refused.value.limits] == [("folder", "data")]
    with pytest.raises(LimitExceeded):
        usage.check_bytes_fit(folder, 1)

    quota_by(place.owner, folder, 2 * KIB)
    with pytest.raises(LimitExceeded, match="The folder “data” uses 4 KiB for folders, 2 KiB more"):
        place.enqueue(mounts=[{"folder": "data"}])
    place.enqueue(mounts=[{"folder": "data", "readonly": True}, {"folder": "other"}])


def test_setting_a_quota_waits_no_longer_than_other_calls_for_a_stalled_host(
    owner: User, host: StorageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stalled:
        capabilities = frozenset({Capability.QUOTA})

        def set_quota(self, *_of_folder: object) -> None:
            assert threading.current_thread().name == f"storage-{host.pk}", "bounded by its deadline"
            raise StorageUnavailable("away")

    folder = make_folder(owner)
    monkeypatch.setattr(quotas, "storage_of", lambda _folder: Stalled())
    with pytest.raises(StorageUnavailable):
        quota_by(owner, folder, KIB)


def test_a_quota_set_during_an_upload_stops_it(
    owner: User, host: StorageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "STEP_BYTES", KIB)
    folder = make_folder(owner)

    def chunks():  # type: ignore[no-untyped-def]
        yield bytes(2 * KIB)
        quota_by(owner, folder, 3 * KIB)
        for _ in range(100):
            yield bytes(KIB)

    with pytest.raises(LimitExceeded):
        files.write_file(actor=actor_for(owner), folder_id=folder.pk, path="a", chunks=chunks())
    folder.refresh_from_db()
    assert folder.size_bytes == 0


def test_who_sets_quotas(project: Project, owner: User, subtests) -> None:  # type: ignore[no-untyped-def]
    admin = make_user(admin_of=project)
    governor = make_user(domain=project.domain, role=Role.DOMAIN_ADMIN)
    member, stranger = make_user(member_of=project), make_user()
    own = make_folder(owner, name="own")
    shared = make_folder(owner, name="shared", project=project)
    for who, folder, refusal in (
        (owner, own, None), (governor, own, None), (owner, own, PermissionDenied), (admin, own, NotFound),
        (owner, shared, None), (member, shared, PermissionDenied), (admin, shared, None),
        (owner, shared, PermissionDenied), (governor, shared, None), (stranger, shared, NotFound),
    ):  # fmt: skip
        with subtests.test(who=who.email, folder=folder.name):
            found: type[BerthError] | None = None
            try:
                quota_by(who, folder, KIB)
            except BerthError as error:
                found = type(error)
            assert found is refusal
    quota_by(governor, own, None)
    assert quota_by(owner, own, KIB).quota_bytes == KIB, "no quota of an administrator stands any more"


def test_no_quota_is_above_the_limits_above(project: Project, owner: User, host: StorageHost) -> None:
    folder = make_folder(owner)
    limit(owner, max_folder_bytes=8 * KIB)
    superadmin = make_user(role=Role.SUPERADMIN)
    set_limits(superadmin, host, max_user_bytes=6 * KIB)
    for wanted in (9 * KIB, 7 * KIB, 0, -1):
        with pytest.raises(InvalidInput) as refused:
            quota_by(owner, folder, wanted)
        assert "quota_bytes" in refused.value.fields
    assert quota_by(owner, folder, 6 * KIB).quota_bytes == 6 * KIB


def set_limits(user: User, host: StorageHost, **limits: int) -> None:
    none = dict.fromkeys(("max_bytes", "max_user_bytes", "max_project_bytes"))
    set_host_limits(actor=superadmin_actor(user), host_id=host.pk, **{**none, **limits})


def test_hosts_limit_each_user_each_project_and_all(project: Project, owner: User, host: StorageHost) -> None:
    superadmin, other = make_user(role=Role.SUPERADMIN), make_user(member_of=project)
    set_limits(superadmin, host, max_user_bytes=2 * KIB, max_project_bytes=3 * KIB, max_bytes=5 * KIB)
    own, others = make_folder(owner), make_folder(other)
    shared = make_folder(owner, project=project)
    upload(own, owner, "a", 2 * KIB)
    with pytest.raises(LimitExceeded, match="Your part of the storage host “local” has 0 B left of 2 KiB"):
        upload(own, owner, "b", 1)
    with pytest.raises(LimitExceeded, match="The project’s part of the storage host “local” has 3 KiB left"):
        upload(shared, owner, "c", 4 * KIB)
    upload(shared, owner, "c", 3 * KIB)
    with pytest.raises(LimitExceeded, match="The storage host “local” has 0 B left of 5 KiB"):
        upload(others, other, "d", 1)
    used = {(state.level, state.used, state.value) for state in byte_limits([own, shared])}
    assert used == {("host", 5 * KIB, 5 * KIB), ("host_user", 2 * KIB, 2 * KIB), ("host_project", 3 * KIB, 3 * KIB)}  # fmt: skip

    set_limits(superadmin, host, max_user_bytes=KIB)
    with pytest.raises(LimitExceeded, match="1 KiB more than its limit of 1 KiB"):
        create_folder(actor=actor_for(owner), name="more")
    with pytest.raises(PermissionDenied):
        set_host_limits(
            actor=actor_for(owner), host_id=host.pk, max_bytes=1, max_user_bytes=None, max_project_bytes=None
        )
