"""Folders: visibility, permissions and deletion."""

import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import IntegrityError, connection, transaction

from common.actors import ANONYMOUS, SYSTEM, Actor
from common.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from common.models import AuditEntry
from tests.conftest import People
from tests.factories import actor_for, make_project, make_user
from tests.factories_folders import make_folder, make_storage_host, superadmin_actor
from vfolders import lifecycle, services, trash
from vfolders.core.permissions import Action
from vfolders.core.states import FolderState
from vfolders.files import service
from vfolders.models import StorageHost, VFolder
from vfolders.ports import FolderUse, folder_deletion_guards
from vfolders.selectors import (
    access_folder,
    access_mountable_folder,
    actions_on,
    mount_source,
    mountable_candidates,
    own_folders,
    visible_folders,
)
from vfolders.storage.backends.local import LocalStorage
from vfolders.storage.base import StorageUnavailable

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def host(db: None, tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


@pytest.fixture
def guard_that_objects() -> Iterator[None]:
    def object_always(folder_id: uuid.UUID) -> list[FolderUse]:
        return [FolderUse("1", "night", "/sessions/1/")]

    with folder_deletion_guards.replaced(object_always):
        yield


def test_a_new_folder_is_an_empty_directory_that_can_be_mounted(people: People) -> None:
    folder = make_folder(people.member, name="data")

    assert os.listdir(mount_source(folder)) == []
    assert folder.owner == people.member
    assert folder.domain == people.domain
    assert AuditEntry.objects.filter(action="vfolders.create_folder", target_id=str(folder.pk)).exists()


def test_a_name_is_taken_once_per_person_and_per_project(people: People) -> None:
    make_folder(people.member, name="data")
    make_folder(people.outsider, name="data")
    make_folder(people.member, name="data", project=people.project)

    with pytest.raises(Conflict) as taken:
        make_folder(people.member, name="data")
    with pytest.raises(Conflict):
        make_folder(people.project_admin, name="data", project=people.project)

    assert "name" in taken.value.fields
    assert len(os.listdir(Path(mount_source(VFolder.objects.first())).parent)) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "..", ".ssh", "a/b", "a b", "x" * 65, "-rf", "a\n"])
def test_a_name_that_cannot_be_a_mount_is_refused(people: People, name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        services.create_folder(actor=actor_for(people.member), name=name)

    assert "name" in refused.value.fields


def test_a_project_folder_is_made_by_its_members_only(people: People) -> None:
    for person in (people.outsider, people.stranger):
        with pytest.raises(NotFound):
            make_folder(person, project=people.project)


def test_the_database_refuses_a_folder_of_nobody_and_of_two(people: People, host: StorageHost) -> None:
    common = {"name": "x", "domain": people.domain, "host": host}
    for whose in ({}, {"owner": people.member, "project": people.project}):
        with pytest.raises(IntegrityError), transaction.atomic():
            VFolder.objects.create(**common, **whose)


def test_who_sees_which_folder(people: People) -> None:
    own = make_folder(people.member)
    shared = make_folder(people.member, project=people.project)

    seen = {
        name: set(visible_folders(actor))
        for name, actor in {
            "anonymous": ANONYMOUS,
            "stranger": actor_for(people.stranger),
            "outsider": actor_for(people.outsider),
            "member": actor_for(people.member),
            "project_admin": actor_for(people.project_admin),
            "domain_admin": actor_for(people.domain_admin),
            "superadmin": superadmin_actor(people.superadmin),
            "system": SYSTEM,
        }.items()
    }

    assert seen == {
        "anonymous": set(),
        "stranger": set(),
        "outsider": set(),
        "member": {own, shared},
        "project_admin": {shared},
        "domain_admin": {own, shared},
        "superadmin": {own, shared},
        "system": {own, shared},
    }
    assert set(own_folders(actor_for(people.domain_admin))) == set()


def test_who_may_do_what(people: People) -> None:
    own = make_folder(people.member)
    shared = make_folder(people.project_admin, project=people.project)
    made_by_member = make_folder(people.member, project=people.project)

    def allowed(user_actor: object, folder: VFolder) -> set[Action]:
        found = visible_folders(user_actor).get(pk=folder.pk)  # type: ignore[arg-type]
        return set(actions_on(user_actor, found))  # type: ignore[arg-type]

    everything, work = set(Action), set(Action) - {Action.DELETE, Action.SHARE, Action.MANAGE}
    upkeep = everything - {Action.MOUNT, Action.MOUNT_READONLY}
    assert allowed(actor_for(people.member), own) == everything
    assert allowed(actor_for(people.member), shared) == work
    assert allowed(actor_for(people.member), made_by_member) == everything
    assert allowed(actor_for(people.project_admin), made_by_member) == everything
    assert allowed(actor_for(people.domain_admin), own) == upkeep
    assert allowed(superadmin_actor(people.superadmin), shared) == upkeep


def test_a_hidden_folder_answers_like_an_absent_one(people: People) -> None:
    folder = make_folder(people.member)
    messages = set()
    for folder_id in (folder.pk, uuid.uuid4()):
        with pytest.raises(NotFound) as refused:
            access_folder(actor_for(people.stranger), folder_id, Action.READ)
        messages.add(refused.value.message)

    assert len(messages) == 1


def test_a_list_costs_the_same_however_long(people: People, django_assert_num_queries: object) -> None:
    for _ in range(5):
        make_folder(people.member)
        make_folder(people.member, project=people.project)
    actor = actor_for(people.member)

    with django_assert_num_queries(2):  # type: ignore[operator]
        rows = [
            (row.host.name, row.owner, row.project, actions_on(actor, row)) for row in visible_folders(actor)
        ]

    assert len(rows) == 10


def mountable(actor: Actor, reference: str, *, is_readonly: bool = False) -> VFolder:
    candidates = mountable_candidates(actor, [reference])
    return access_mountable_folder(actor, reference, candidates, is_readonly=is_readonly)


def test_a_mount_is_found_by_id_or_by_name_and_one_s_own_comes_first(people: People) -> None:
    actor = actor_for(people.member)
    shared = make_folder(people.project_admin, name="data", project=people.project)

    assert mountable(actor, "data") == shared
    own = make_folder(people.member, name="data")
    assert mountable(actor, "data", is_readonly=True) == own
    assert mountable(actor, str(shared.pk)) == shared
    for reference in ("absent", str(uuid.uuid4()), "../data", ""):
        with pytest.raises(NotFound):
            mountable(actor, reference)


def test_one_name_in_two_projects_asks_for_the_id(people: People) -> None:
    both = make_user(admin_of=people.project)
    other = make_project(people.domain)
    from accounts.tenancy.service import add_member

    add_member(actor=SYSTEM, project=other, user=both)
    make_folder(both, name="data", project=people.project)
    make_folder(both, name="data", project=other)

    with pytest.raises(Conflict, match="Several"):
        mountable(actor_for(both), "data")


def test_administrators_do_not_mount_what_is_not_theirs(people: People) -> None:
    folder = make_folder(people.member, name="data")

    with pytest.raises(PermissionDenied):
        mountable(actor_for(people.domain_admin), str(folder.pk))
    with pytest.raises(NotFound):
        mountable(actor_for(people.domain_admin), "data")


def test_a_deleted_folder_is_hidden_at_once_then_purged(people: People) -> None:
    folder = make_folder(people.member, name="data")
    source = mount_source(folder)
    service.write_file(actor=actor_for(people.member), folder_id=folder.pk, path="a/b", chunks=[b"x"])

    trash.delete_folder(actor=actor_for(people.member), folder_id=folder.pk)

    folder = VFolder.objects.get(pk=folder.pk)
    assert folder.state == FolderState.DELETING
    assert not visible_folders(actor_for(people.member)).exists()
    with pytest.raises(StorageUnavailable):
        mount_source(folder)
    with pytest.raises(Conflict):
        services.lock_folders([folder.pk])
    make_folder(people.member, name="data")
    assert services.purge_folders() == 1
    assert services.purge_folders() == 0
    assert not os.path.exists(source)
    assert not VFolder.objects.filter(pk=folder.pk).exists()


def test_a_folder_of_a_host_that_is_away_is_purged_later(people: People, host: StorageHost) -> None:
    folder = make_folder(people.member)
    trash.delete_folder(actor=actor_for(people.member), folder_id=folder.pk)
    present = host.config["root"]
    StorageHost.objects.update(config={"root": f"{present}-away"})

    assert services.purge_folders() == 0
    StorageHost.objects.update(config={"root": present})
    assert services.purge_folders() == 1


def test_a_folder_that_cannot_be_purged_stops_no_other(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = make_folder(people.member, name="bad"), make_folder(people.member, name="good")
    for folder in (bad, good):
        trash.delete_folder(actor=actor_for(people.member), folder_id=folder.pk)
    delete = LocalStorage.delete_folder

    def answer_oddly_for_one(storage: LocalStorage, folder_id: uuid.UUID) -> None:
        if folder_id == bad.pk:
            raise KeyError("data")
        delete(storage, folder_id)

    monkeypatch.setattr(LocalStorage, "delete_folder", answer_oddly_for_one)
    assert services.purge_folders() == 1
    assert list(VFolder.objects.all()) == [bad]


def test_deletion_is_refused_while_a_guard_objects(people: People, guard_that_objects: None) -> None:
    folder = make_folder(people.member)

    with pytest.raises(Conflict, match="night") as refused:
        trash.delete_folder(actor=actor_for(people.member), folder_id=folder.pk)

    assert refused.value.code == "folder_in_use"
    assert VFolder.objects.get(pk=folder.pk).state == FolderState.READY


def test_deleting_is_for_those_who_may(people: People) -> None:
    folder = make_folder(people.project_admin, project=people.project)

    with pytest.raises(PermissionDenied):
        trash.delete_folder(actor=actor_for(people.member), folder_id=folder.pk)


def test_states_go_one_way(people: People) -> None:
    folder = make_folder(people.member)
    lifecycle.transition(folder.pk, to=FolderState.DELETING, actor=SYSTEM)
    lifecycle.transition(folder.pk, to=FolderState.DELETING, actor=SYSTEM)

    with pytest.raises(lifecycle.IllegalTransition):
        lifecycle.transition(folder.pk, to=FolderState.READY, actor=SYSTEM)


@pytest.mark.django_db(transaction=True)
def test_holding_a_folder_and_deleting_it_cannot_cross(people: People) -> None:
    """Whoever holds first is seen by the guard of the deletion that waits."""
    folder = make_folder(people.member)
    is_used = threading.Event()
    started = threading.Event()
    outcome: list[object] = []

    def guard(folder_id: uuid.UUID) -> list[FolderUse]:
        return [FolderUse("1", "night", "/sessions/1/")] if is_used.is_set() else []

    def delete() -> None:
        started.set()
        try:
            trash.delete_folder(actor=actor_for(people.member), folder_id=folder.pk)
        except Conflict as refusal:
            outcome.append(refusal.code)
        finally:
            connection.close()

    thread = threading.Thread(target=delete)
    with folder_deletion_guards.replaced(guard):
        with transaction.atomic():
            services.lock_folders([folder.pk])
            thread.start()
            started.wait(5)
            is_used.set()
        thread.join(10)

    assert outcome == ["folder_in_use"]


def test_there_is_one_default_host(host: StorageHost) -> None:
    assert services.ensure_default_host() == host
    with pytest.raises(IntegrityError), transaction.atomic():
        StorageHost.objects.create(name="second", is_default=True)
