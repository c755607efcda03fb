"""Shared folders: who gets which right, and what the database refuses."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.db import IntegrityError, transaction

from common import clock
from common.db.connection import constraint_of
from common.errors import Conflict, NotFound, PermissionDenied
from tests.conftest import People
from tests.db.vfolders.test_folders import mountable
from tests.factories import actor_for, make_project, make_user
from tests.factories_folders import make_folder, make_share, make_storage_host
from vfolders import access_watch
from vfolders.access_watch import AccessWatch
from vfolders.core.permissions import Action, Right
from vfolders.models import StorageHost, VFolder
from vfolders.selectors import access_folder, actions_on, own_folders, visible_folders

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def host(db: None, tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


LOOK = {Action.VIEW, Action.READ, Action.MOUNT_READONLY}
WORK = LOOK | {Action.WRITE, Action.MOUNT}


def test_a_share_gives_exactly_its_right(people: People) -> None:
    actor = actor_for(people.outsider)
    given = {}
    for right in Right:
        folder = make_folder(people.member)
        make_share(folder, people.outsider, right=right)
        given[right] = actions_on(actor, visible_folders(actor).get(pk=folder.pk))

    assert given == {Right.READ: LOOK, Right.WRITE: WORK, Right.DELETE: WORK | {Action.DELETE}}
    assert own_folders(actor).count() == 3


def test_of_several_shares_the_one_that_gives_most_decides(people: People) -> None:
    folder = make_folder(people.outsider)
    make_share(folder, project=people.project, right=Right.WRITE)
    make_share(folder, people.member, right=Right.READ)

    actor = actor_for(people.member)
    assert actions_on(actor, visible_folders(actor).get()) == WORK
    assert actions_on(
        actor_for(people.project_admin), visible_folders(actor_for(people.project_admin)).get()
    ) == (WORK)


def test_open_expired_and_closed_shares_give_nothing(people: People) -> None:
    now = clock.now()
    make_share(
        make_folder(people.member), people.outsider, accepted_at=None, answer_by=now + timedelta(days=1)
    )
    make_share(make_folder(people.member), people.outsider, expires_at=now)
    closed = make_project(people.domain)
    make_share(make_folder(people.member), project=closed)
    outsider = actor_for(people.outsider)

    assert not visible_folders(outsider).exists()
    with clock.frozen_at(now - timedelta(seconds=1)):
        assert visible_folders(outsider).count() == 1


def test_the_database_refuses_shares_with_owners_and_other_domains(people: People) -> None:
    own, of_project = make_folder(people.member), make_folder(people.member, project=people.project)
    refused = {}
    for name, folder, columns in (
        ("owner", own, {"person": people.member}),
        ("own project", of_project, {"project": people.project}),
        ("other domain", own, {"person": people.stranger}),
        ("project of another domain", own, {"project": make_project(people.stranger.domain)}),
        ("nobody", own, {}),
        ("open without end", own, {"person": people.outsider, "accepted_at": None}),
    ):
        with pytest.raises(IntegrityError) as error, transaction.atomic():
            make_share(folder, **columns)  # type: ignore[arg-type]
        refused[name] = constraint_of(error.value)

    assert refused == {
        "owner": "share_not_with_owner",
        "own project": "share_not_with_owner",
        "other domain": "share_in_domain",
        "project of another domain": "share_in_domain",
        "nobody": "share_in_domain",
        "open without end": "share_open_invitation_ends",
    }


def test_who_becomes_the_owner_has_no_share_any_more(people: People) -> None:
    folder = make_folder(people.member)
    make_share(folder, people.outsider)

    VFolder.objects.filter(pk=folder.pk).update(owner=people.outsider)

    assert not folder.shares.exists()


def test_a_name_that_is_shared_and_own_mounts_the_own_folder(people: People) -> None:
    actor = actor_for(people.outsider)
    shared = make_folder(people.member, name="data")
    make_share(shared, people.outsider)

    assert mountable(actor, "data", is_readonly=True) == shared
    with pytest.raises(PermissionDenied):
        mountable(actor, "data")
    own = make_folder(people.outsider, name="data")
    assert mountable(actor, "data") == own
    assert mountable(actor, str(shared.pk), is_readonly=True) == shared


def test_one_name_shared_by_two_people_asks_for_the_id(people: People) -> None:
    for owner in (people.member, make_user(domain=people.domain)):
        make_share(make_folder(owner, name="data"), people.outsider)

    with pytest.raises(Conflict, match="Several"):
        mountable(actor_for(people.outsider), "data", is_readonly=True)


def test_a_transfer_ends_once_its_right_or_account_is_gone(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_watch, "RECHECK_S", 0.0)
    folder = make_folder(people.member)
    share = make_share(folder, people.outsider, right=Right.WRITE)
    watch = AccessWatch(actor_for(people.outsider), folder.pk, Action.WRITE)
    watch.check()

    share.right = Right.READ
    share.save()
    with pytest.raises(PermissionDenied):
        watch.check()
    share.delete()
    with pytest.raises(NotFound):
        watch.check()
    watch = AccessWatch(actor_for(people.member), folder.pk, Action.WRITE)
    people.member.is_active = False
    people.member.save()
    with pytest.raises(PermissionDenied, match="account"):
        watch.check()
    access_folder(actor_for(people.member), folder.pk, Action.WRITE)


def test_transfers_under_one_right_check_it_in_turn(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_folder(people.member, name="data")
    writing = [AccessWatch(actor_for(people.member), folder.pk, Action.WRITE) for _ in range(3)]
    reading = AccessWatch(actor_for(people.member), folder.pk, Action.READ)
    checked: list[AccessWatch] = []
    monkeypatch.setattr(AccessWatch, "require_access", lambda watch: checked.append(watch))
    for watch in (writing[0], reading):
        watch._turn.due_at = 0.0
    for watch in (*writing, reading):
        watch.check()
    assert checked == [writing[0], reading]

    monkeypatch.setattr(AccessWatch, "require_access", _refuse)
    writing[0]._turn.due_at = 0.0
    for watch in writing:
        with pytest.raises(PermissionDenied):
            watch.check()


def _refuse(watch: AccessWatch) -> None:
    raise PermissionDenied("gone")
