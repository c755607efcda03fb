"""Sharing of folders: invitations, answers, changes, hand-over, and what is refused."""

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection

from accounts.models import User
from accounts.policies.service import create_policy
from common import clock
from common.actors import SYSTEM
from common.errors import BerthError, Conflict, LimitExceeded, NotFound, PermissionDenied
from common.models import AuditEntry
from portal.models import Notification
from tests.conftest import People
from tests.factories import actor_for, make_project, make_user
from tests.factories_folders import make_folder, make_share, make_storage_host
from vfolders import services
from vfolders.core.modes import FolderMode
from vfolders.core.permissions import OWNERSHIP, Action, Right
from vfolders.models import FolderShare, StorageHost, VFolder
from vfolders.selectors import actions_on, automatic_folders, mountable_candidates, visible_folders
from vfolders.sharing import service
from vfolders.sharing.selectors import folder_shares, own_invitations

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def host(db: None, tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


def invite(folder: VFolder, person: User, right: str = Right.WRITE, **more: object) -> FolderShare:
    assert folder.owner is not None
    return service.share_folder(
        actor=actor_for(folder.owner), folder_id=folder.pk, right=right, person=person.email, **more
    )  # type: ignore[arg-type]


def test_an_invitation_gives_its_right_once_it_is_accepted(people: People) -> None:
    folder = make_folder(people.member)
    invitation = invite(folder, people.outsider)
    invited = actor_for(people.outsider)

    assert not visible_folders(invited).exists()
    assert [each.pk for each in own_invitations(invited)] == [invitation.pk]
    for _twice in range(2):
        assert service.accept_share(actor=invited, share_id=invitation.pk) == folder
    assert Action.WRITE in actions_on(invited, visible_folders(invited).get())
    assert not own_invitations(invited).exists()
    service.leave_folder(actor=invited, folder_id=folder.pk)
    assert not visible_folders(invited).exists()


def test_a_declined_invitation_is_gone_and_can_be_made_again(people: People) -> None:
    folder = make_folder(people.member)
    invited = actor_for(people.outsider)
    service.decline_share(actor=invited, share_id=invite(folder, people.outsider).pk)

    assert not folder.shares.exists()
    invite(folder, people.outsider)


def test_a_person_is_found_by_name(people: People) -> None:
    people.outsider.name = "Ada Lovelace"
    people.outsider.save()
    folder = make_folder(people.member)
    actor = actor_for(people.member)

    share = service.share_folder(actor=actor, folder_id=folder.pk, right=Right.READ, person="ada lovelace ")
    assert share.user == people.outsider
    User.objects.filter(pk=make_user(domain=people.domain).pk).update(name="Ada Lovelace")
    with pytest.raises(Conflict, match="Several"):
        service.share_folder(actor=actor, folder_id=folder.pk, right=Right.READ, person="Ada Lovelace")


def test_a_project_gets_the_right_at_once(people: People) -> None:
    folder = make_folder(people.outsider)
    service.share_folder(
        actor=actor_for(people.outsider), folder_id=folder.pk, right=Right.READ, project=people.project.name
    )

    assert visible_folders(actor_for(people.member)).get() == folder
    with pytest.raises(Conflict, match="not shared with you as a person"):
        service.leave_folder(actor=actor_for(people.member), folder_id=folder.pk)


def test_who_cannot_be_invited_gets_a_sentence_that_reveals_nothing(people: People) -> None:
    folder = make_folder(people.member)
    actor = actor_for(people.member)
    make_share(folder, people.outsider)
    messages: dict[str, str] = {}
    for name, person in {
        "oneself": people.member.email,
        "nobody": "nobody@berth.example",
        "other domain": people.stranger.email,
        "again": people.outsider.email,
        "empty": " ",
        "no name": "x" * 300,
    }.items():
        with pytest.raises(BerthError) as refused:
            service.share_folder(actor=actor, folder_id=folder.pk, right=Right.READ, person=person)
        assert refused.value.fields, name
        messages[name] = refused.value.message

    assert messages["nobody"] == messages["other domain"].replace(
        people.stranger.email, "nobody@berth.example"
    )
    assert "yourself" in messages["oneself"]
    assert "already" in messages["again"]


def test_only_who_may_share_shares_changes_and_revokes(people: People) -> None:
    folder = make_folder(people.member)
    share = make_share(folder, people.outsider, right=Right.DELETE)
    reader = actor_for(people.outsider)

    for attempt in (
        lambda: service.share_folder(
            actor=reader, folder_id=folder.pk, right=Right.READ, person=people.project_admin.email
        ),
        lambda: service.change_share(
            actor=reader, folder_id=folder.pk, share_id=share.pk, right=Right.DELETE
        ),
        lambda: service.revoke_share(actor=reader, folder_id=folder.pk, share_id=share.pk),
        lambda: folder_shares(reader, folder.pk),
    ):
        with pytest.raises(PermissionDenied):
            attempt()
    foreign = make_share(make_folder(people.outsider), people.member)
    with pytest.raises(NotFound):
        service.revoke_share(actor=actor_for(people.member), folder_id=folder.pk, share_id=foreign.pk)


def test_invitations_that_ended_are_refused_with_their_reason(people: People) -> None:
    folder = make_folder(people.member)
    owner, invited = actor_for(people.member), actor_for(people.outsider)
    revoked = invite(folder, people.outsider)
    service.revoke_share(actor=owner, folder_id=folder.pk, share_id=revoked.pk)
    with pytest.raises(NotFound, match="withdrawn"):
        service.accept_share(actor=invited, share_id=revoked.pk)

    share = invite(folder, people.outsider, answer_days=1)
    with pytest.raises(NotFound):
        service.accept_share(actor=actor_for(people.project_admin), share_id=share.pk)
    with clock.frozen_at(clock.now() + timedelta(days=1)):
        for answer in (service.accept_share, service.decline_share):
            with pytest.raises(Conflict, match="expired"):
                answer(actor=invited, share_id=share.pk)
        assert service.remove_ended_shares() == 1
    share = invite(folder, people.outsider)
    people.member.is_active = False
    people.member.save()
    with pytest.raises(Conflict, match="may not share"):
        service.accept_share(actor=invited, share_id=share.pk)


def test_a_changed_right_and_an_end_hold_at_once(people: People) -> None:
    folder = make_folder(people.member)
    share = make_share(folder, people.outsider, right=Right.WRITE)
    owner, partner = actor_for(people.member), actor_for(people.outsider)

    service.change_share(actor=owner, folder_id=folder.pk, share_id=share.pk, right=Right.READ)
    assert Action.WRITE not in actions_on(partner, visible_folders(partner).get())
    end = clock.now() + timedelta(hours=1)
    service.change_share(actor=owner, folder_id=folder.pk, share_id=share.pk, expires_at=end)
    with clock.frozen_at(end):
        assert not visible_folders(partner).exists()
        service.change_share(actor=owner, folder_id=folder.pk, share_id=share.pk, is_endless=True)
        assert visible_folders(partner).exists()
        assert service.remove_ended_shares() == 0


def test_each_change_is_told_and_recorded(people: People, django_capture_on_commit_callbacks: object) -> None:
    folder = make_folder(people.member, name="data")
    owner, partner = actor_for(people.member), actor_for(people.outsider)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        share = invite(folder, people.outsider)
        service.accept_share(actor=partner, share_id=share.pk)
        service.change_share(actor=owner, folder_id=folder.pk, share_id=share.pk, right=Right.READ)
        service.revoke_share(actor=owner, folder_id=folder.pk, share_id=share.pk)

    told = {(each.person_id, each.code) for each in Notification.objects.all()}
    assert told == {
        (people.outsider.pk, "folder_invited"),
        (people.member.pk, "folder_accepted"),
        (people.outsider.pk, "folder_right_changed"),
        (people.outsider.pk, "folder_revoked"),
    }
    actions = AuditEntry.objects.filter(target_id=str(folder.pk)).values_list("action", flat=True)
    assert {name.removeprefix("vfolders.") for name in actions} >= {
        "share_folder", "accept_share", "change_share", "revoke_share",
    }  # fmt: skip


def test_a_new_owner_accepts_the_folder_within_own_limits(people: People) -> None:
    folder = make_folder(people.member, name="data")
    make_share(folder, people.project_admin)
    offer = invite(folder, people.outsider, OWNERSHIP)
    with pytest.raises(Conflict, match="offered"):
        invite(folder, people.project_admin, OWNERSHIP)
    make_folder(people.outsider, name="data")
    policy = create_policy(actor=SYSTEM, name="one", limits={"max_folders": 1})
    people.outsider.policy = policy
    people.outsider.save()
    heir = actor_for(people.outsider)

    with pytest.raises(LimitExceeded):
        service.accept_share(actor=heir, share_id=offer.pk)
    assert VFolder.objects.get(pk=folder.pk).owner == people.member
    people.outsider.policy = None
    people.outsider.save()
    StorageHost.objects.update(max_user_bytes=10)
    VFolder.objects.filter(pk=folder.pk).update(size_bytes=11)
    with pytest.raises(LimitExceeded):
        service.accept_share(actor=heir, share_id=offer.pk)
    StorageHost.objects.update(max_user_bytes=11)
    given = service.accept_share(actor=heir, share_id=offer.pk)

    assert (given.owner, given.name) == (people.outsider, f"data-{people.member.pk}")
    assert [share.user for share in given.shares.all()] == [people.project_admin]
    assert not visible_folders(actor_for(people.member)).exists()


def test_a_folder_of_a_new_owner_is_not_mounted_by_itself(people: People) -> None:
    folder = services.create_folder(
        actor=actor_for(people.member), name=".ipython", mode=FolderMode.AUTO_MOUNT
    )
    make_folder(people.outsider, name="ipython")
    offer = invite(folder, people.outsider, OWNERSHIP)
    heir = actor_for(people.outsider)
    given = service.accept_share(actor=heir, share_id=offer.pk)
    given.refresh_from_db()
    assert (given.mode, given.name) == (FolderMode.GENERAL, f"ipython-{people.member.pk}")
    assert not automatic_folders(heir, mountable_candidates(heir, [], with_automatic=True))


def test_folders_of_projects_are_not_offered(people: People) -> None:
    folder = make_folder(people.project_admin, project=people.project)
    with pytest.raises(BerthError, match="personal folder"):
        service.share_folder(
            actor=actor_for(people.project_admin),
            folder_id=folder.pk,
            right=OWNERSHIP,
            person=people.outsider.email,
        )


def test_shares_of_people_who_left_the_domain_give_nothing_and_are_removed(people: People) -> None:
    folder = make_folder(people.member)
    make_share(folder, people.outsider)
    User.objects.filter(pk=people.outsider.pk).update(domain=people.stranger.domain)
    people.outsider.refresh_from_db()

    assert not visible_folders(actor_for(people.outsider)).exists()
    assert service.remove_ended_shares() == 1


@pytest.mark.django_db(transaction=True)
def test_an_accept_and_a_revoke_at_once_leave_no_right_behind(people: People) -> None:
    folder = make_folder(people.member)
    for _round in range(5):
        share = invite(folder, people.outsider)
        refusals: list[BerthError] = []

        def attempt(act: Callable[[], object], refusals: list[BerthError] = refusals) -> None:
            try:
                act()
            except BerthError as refusal:
                refusals.append(refusal)
            finally:
                connection.close()

        acts = (
            lambda pk=share.pk: service.accept_share(actor=actor_for(people.outsider), share_id=pk),
            lambda pk=share.pk: service.accept_share(actor=actor_for(people.outsider), share_id=pk),
            lambda pk=share.pk: service.revoke_share(
                actor=actor_for(people.member), folder_id=folder.pk, share_id=pk
            ),
        )
        threads = [threading.Thread(target=attempt, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(isinstance(each, NotFound) for each in refusals)
        assert not folder.shares.exists()


def test_shares_of_a_closed_project_give_nothing(people: People) -> None:
    folder = make_folder(people.outsider)
    other = make_project(people.domain)
    service.share_folder(
        actor=actor_for(people.outsider), folder_id=folder.pk, right=Right.READ, project=other.name
    )
    member = make_user(member_of=other)
    assert visible_folders(actor_for(member)).exists()
    other.is_active = False
    other.save()
    assert not visible_folders(actor_for(member)).exists()
