"""Off-boarding ends all access at once and resolves resources one by one; repeating it changes nothing."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from accounts.logins.service import Login, valid_logins
from accounts.models import KeyPair, KnownPlace, ListColumns, Membership, OffBoarding, User
from accounts.tasks import continue_offboardings as task
from accounts.tenancy import offboarding
from accounts.tenancy.offboarding import Folders, close_user, continue_offboarding, continue_offboardings
from common.actors import SYSTEM
from common.errors import Conflict, NotFound
from common.models import AuditEntry
from portal.models import Notification
from portal.notifications.catalogue import Code
from sessions_app.core.states import Status
from sessions_app.launch.terminator import end_session
from tests.factories import actor_for, api_client, make_token, make_user
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place, make_place
from vfolders import offboarding as vfolders_offboarding
from vfolders.models import VFolder

pytestmark = pytest.mark.django_db


@pytest.fixture
def place(tmp_path: Path) -> Place:
    make_storage_host(tmp_path)
    return make_place()


@pytest.fixture
def heir(place: Place) -> User:
    return make_user(member_of=place.project)


def close(place: Place, **wish: Any) -> OffBoarding:
    return close_user(actor=SYSTEM, user_id=place.owner.pk, **wish)


def sentences(case: OffBoarding) -> list[str]:
    return [f"{line['name']}: {line['sentence']}" for line in offboarding.offboarding_report(case)]


def test_all_access_ends_at_once_and_for_good(place: Place) -> None:
    browser = Client()
    browser.force_login(place.owner, backend="accounts.sign_in.auth_backends.SignInBackend")
    program = api_client(place.owner)
    login = Login(user_id=place.owner.pk, session_key=browser.session.session_key or "")
    assert valid_logins([login])
    case = close(place)
    assert not valid_logins([login])
    assert program.get("/api/v1/me/").status_code == 401
    assert not Membership.objects.filter(user=place.owner).exists()

    offboarding.reopen_user(actor=SYSTEM, user_id=place.owner.pk)
    assert not valid_logins([login])
    assert program.get("/api/v1/me/").status_code == 401
    assert not KeyPair.objects.filter(user=place.owner).exists()
    assert any(place.project.name in line for line in sentences(case))


def test_live_sessions_are_stopped_and_the_report_says_when_they_have_ended(place: Place) -> None:
    running, waiting = place.run(name="train"), place.enqueue(name="next")
    case = continue_offboarding(close(place).pk)
    assert place.fresh(running).status == Status.TERMINATING
    assert place.fresh(waiting).status == Status.CANCELLED
    assert case.finished_at is None
    end_session(running.pk)
    continue_offboardings()
    case.refresh_from_db()
    assert case.finished_at is not None
    assert {"session “train”: Has ended.", "session “next”: Has ended."} <= set(sentences(case))


def test_requester_of_off_boarding_is_in_the_audit_log(place: Place) -> None:
    admin = make_user(domain=place.project.domain, role=offboarding.Role.DOMAIN_ADMIN)
    place.run()
    continue_offboarding(close_user(actor=actor_for(admin), user_id=place.owner.pk).pk)
    entry = AuditEntry.objects.get(action="sessions.terminate_session")
    assert (entry.actor_kind, entry.actor_label) == ("system", admin.email)


def test_folders_stay_unless_something_else_is_wished(place: Place) -> None:
    folder = make_folder(place.owner, name="data")
    case = continue_offboarding(close(place).pk)
    assert VFolder.objects.get(pk=folder.pk).owner == place.owner
    assert "folder “data”: Stays with the closed account." in sentences(case)


def test_folders_are_handed_over_and_renamed_where_the_name_is_taken(place: Place, heir: User) -> None:
    make_folder(heir, name="data")
    taken, free = make_folder(place.owner, name="data"), make_folder(place.owner, name="models")
    case = continue_offboarding(close(place, folders=Folders.HAND_OVER, new_owner=heir).pk)
    names = dict(VFolder.objects.filter(owner=heir).values_list("pk", "name"))
    assert names[free.pk] == "models"
    assert names[taken.pk] == f"data-{place.owner.pk}"
    assert f"folder “models”: Belongs to {heir.email} now, as “models”." in sentences(case)


def test_folders_stay_when_the_heir_has_left_too(place: Place, heir: User) -> None:
    folder = make_folder(place.owner)
    case = close(place, folders=Folders.HAND_OVER, new_owner=heir)
    close_user(actor=SYSTEM, user_id=heir.pk)
    continue_offboarding(case.pk)
    assert VFolder.objects.get(pk=folder.pk).owner == place.owner


def test_folders_are_deleted_once_no_session_mounts_them(place: Place) -> None:
    folder = make_folder(place.owner, name="data")
    session = place.run(mounts=[{"folder": "data"}])
    case = close(place, folders=Folders.DELETE)
    task()
    assert VFolder.objects.get(pk=folder.pk).state == "ready"
    end_session(session.pk)
    task()
    task()
    case.refresh_from_db()
    assert case.finished_at is not None
    assert VFolder.objects.get(pk=folder.pk).state == "deleting"


def test_whatever_dies_in_the_middle_doing_it_again_finishes_it(
    place: Place, heir: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each item once: each run gets one further."""
    folders = [make_folder(place.owner, name=f"data-{number}") for number in range(3)]
    case = close(place, folders=Folders.HAND_OVER, new_owner=heir)
    real, died = vfolders_offboarding.hand_over, set()

    def dies_once_after_its_work(**arguments: Any) -> Any:
        done = real(**arguments)
        if arguments["folder_id"] not in died:
            died.add(arguments["folder_id"])
            raise RuntimeError("killed")
        return done

    monkeypatch.setattr(vfolders_offboarding, "hand_over", dies_once_after_its_work)
    for _ in folders:
        with pytest.raises(RuntimeError):
            continue_offboarding(case.pk)
    case = continue_offboarding(case.pk)
    assert case.finished_at is not None
    assert set(VFolder.objects.filter(owner=heir).values_list("name", flat=True)) == {
        folder.name for folder in folders
    }
    assert AuditEntry.objects.filter(action="vfolders.hand_over_folder").count() == len(folders)


def test_a_folder_that_is_gone_or_cannot_be_deleted_now_stops_nothing_else(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, lost = make_folder(place.owner, name="gone"), make_folder(place.owner, name="lost")
    case = close(place, folders=Folders.DELETE)
    VFolder.objects.filter(pk=gone.pk).delete()
    assert (
        vfolders_offboarding.hand_over(folder_id=gone.pk, heir=place.owner, actor=SYSTEM)
        == vfolders_offboarding.DELETED
    )

    def refuses(**arguments: Any) -> None:
        raise offboarding.BerthError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(vfolders_offboarding.trash, "delete_folder", refuses)
        assert continue_offboarding(case.pk).finished_at is None
    case = continue_offboarding(case.pk)
    assert case.finished_at is not None
    assert VFolder.objects.get(pk=lost.pk).state == "deleting"


def test_one_that_fails_stops_none_of_the_others(
    place: Place, heir: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(place.owner)
    cases = [close(place, folders=Folders.DELETE), close_user(actor=SYSTEM, user_id=heir.pk)]

    def fails(**arguments: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(vfolders_offboarding.trash, "delete_folder", fails)
    continue_offboardings()
    assert [OffBoarding.objects.get(pk=case.pk).finished_at is not None for case in cases] == [False, True]


def test_asked_again_meanwhile_the_first_wish_holds_and_afterwards_a_new_one_may_be_said(
    place: Place, heir: User
) -> None:
    folder = make_folder(place.owner)
    first = close(place)
    assert close(place, folders=Folders.DELETE) == first
    continue_offboarding(first.pk)
    second = close(place, folders=Folders.HAND_OVER, new_owner=heir)
    assert second != first
    continue_offboarding(second.pk)
    assert VFolder.objects.get(pk=folder.pk).owner == heir


def test_what_was_not_settled_when_the_account_opens_again_stays(place: Place) -> None:
    folder = make_folder(place.owner)
    case = close(place, folders=Folders.DELETE)
    person = offboarding.reopen_user(actor=SYSTEM, user_id=place.owner.pk)
    assert offboarding.reopen_user(actor=SYSTEM, user_id=place.owner.pk).is_active
    assert person.is_active
    continue_offboarding(case.pk)
    continue_offboardings()
    assert VFolder.objects.get(pk=folder.pk).state == "ready"
    case.refresh_from_db()
    assert "opened again" in sentences(case)[-1]


def test_opened_again_in_the_middle_of_a_run_no_further_item_is_settled(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        make_folder(place.owner, name=name)
    case = close(place, folders=Folders.DELETE)
    real = vfolders_offboarding.trash.delete_folder

    def opens_again(**arguments: Any) -> None:
        real(**arguments)
        offboarding.reopen_user(actor=SYSTEM, user_id=place.owner.pk)

    monkeypatch.setattr(vfolders_offboarding.trash, "delete_folder", opens_again)
    continue_offboarding(case.pk)
    assert VFolder.objects.filter(owner=place.owner, state="ready").count() == 1


# Purging


def test_an_open_account_and_one_with_folders_are_not_purged(place: Place) -> None:
    with pytest.raises(Conflict, match="open"):
        offboarding.purge_user(actor=SYSTEM, user_id=place.owner.pk)
    make_folder(place.owner, name="data")
    continue_offboarding(close(place).pk)
    with pytest.raises(Conflict, match="folder “data”"):
        offboarding.purge_user(actor=SYSTEM, user_id=place.owner.pk)


def test_a_person_without_history_is_gone(place: Place) -> None:
    make_token(place.owner)
    continue_offboarding(close(place).pk)
    offboarding.purge_user(actor=SYSTEM, user_id=place.owner.pk)
    assert not User.objects.filter(pk=place.owner.pk).exists()


def test_a_person_with_history_leaves_a_nameless_row(place: Place) -> None:
    session = place.end(place.run())
    ListColumns.objects.create(user=place.owner, table="sessions")
    KnownPlace.objects.create(user=place.owner, name="network:203.0.113.7")
    Notification.objects.create(person=place.owner, code=Code.NOT_STARTED, arguments={})
    continue_offboarding(close(place).pk)
    offboarding.purge_user(actor=SYSTEM, user_id=place.owner.pk)
    row = User.objects.get(pk=place.owner.pk)
    assert row.email == f"purged-{row.pk}@purged.invalid"
    assert (row.name, row.is_active, row.has_usable_password()) == ("", False, False)
    assert not row.notifications.exists()
    assert not ListColumns.objects.filter(user=row).exists()
    assert not KnownPlace.objects.filter(user=row).exists()
    assert place.fresh(session).owner == row
    with pytest.raises(NotFound):
        offboarding.reopen_user(actor=SYSTEM, user_id=row.pk)


def test_address_of_a_purged_user_is_free_again(place: Place) -> None:
    email = place.owner.email
    place.end(place.run())
    continue_offboarding(close(place).pk)
    offboarding.purge_user(actor=SYSTEM, user_id=place.owner.pk)
    assert make_user(domain=place.project.domain, email=email).email == email
