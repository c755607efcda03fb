"""Sessions that mount a shared folder: what they get, and what happens when the right ends."""

from pathlib import Path

import pytest

from common.errors import PermissionDenied
from sessions_app.core.states import Reason, Status
from sessions_app.dotfiles.service import put_dotfile, set_startup_script
from sessions_app.launch.launcher import launch_session
from tests.db.sessions_app.dotfiles.test_delivery import SpeakingRuntime
from tests.factories import actor_for, make_user
from tests.factories_folders import make_folder, make_share, make_storage_host
from tests.factories_sessions import Place
from vfolders.core.permissions import Right
from vfolders.models import VFolder
from vfolders.sharing.selectors import sessions_without_right
from vfolders.sharing.service import change_share, end_sessions_without_right, revoke_share

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]


@pytest.fixture
def folder(place: Place, tmp_path: Path) -> VFolder:
    """Folder of another person than the owner of the sessions."""
    make_storage_host(tmp_path)
    return make_folder(make_user(member_of=place.project), name="data")


def test_a_shared_folder_brings_nothing_else_of_its_owner(place: Place, folder: VFolder) -> None:
    engine = place.replace_runtime(SpeakingRuntime)
    assert isinstance(engine, SpeakingRuntime)
    engine.says = b"files\n"
    owner = actor_for(folder.owner)  # type: ignore[arg-type]
    put_dotfile(actor=owner, path=".secrets", content="token of the owner")
    set_startup_script(actor=owner, content="export OWNER_VARIABLE=1\n")
    own_session = place.enqueue(by=folder.owner, environment={"OWNER_TOKEN": "hidden"})
    make_share(folder, place.owner)

    session = place.run(mounts=[{"folder": "data", "readonly": True}])

    assert session.status == Status.RUNNING
    assert own_session.environment["OWNER_TOKEN"] == "hidden"
    assert not hasattr(engine, "put")
    assert "OWNER_TOKEN" not in engine.spec.environment
    assert [mount.target for mount in engine.spec.mounts if mount.source.endswith(folder.pk.hex)] == [
        "/home/work/data"
    ]
    assert all(mount.is_readonly for mount in engine.spec.mounts if mount.source.endswith(folder.pk.hex))


def test_a_session_that_waits_does_not_start_with_a_folder_that_was_revoked(
    place: Place, folder: VFolder
) -> None:
    owner = actor_for(folder.owner)  # type: ignore[arg-type]
    revoked = make_share(folder, place.owner, right=Right.WRITE)
    session = place.place(mounts=[{"folder": "data"}])
    revoke_share(actor=owner, folder_id=folder.pk, share_id=revoked.pk)

    launch_session(session.pk)

    session = place.fresh(session)
    assert (session.status, session.outcome_reason) == (Status.TERMINATING, Reason.FOLDER_REVOKED)


def test_sessions_that_go_on_without_a_right_are_listed_and_can_be_ended(
    place: Place, folder: VFolder
) -> None:
    owner = actor_for(folder.owner)  # type: ignore[arg-type]
    share = make_share(folder, place.owner, right=Right.WRITE)
    writer = place.run(mounts=[{"folder": "data"}])
    reader = place.run(mounts=[{"folder": "data", "readonly": True}])
    waiting = place.enqueue(mounts=[{"folder": "data"}])
    ids = [writer.pk, reader.pk, waiting.pk]
    assert sessions_without_right(folder) == []

    change_share(actor=owner, folder_id=folder.pk, share_id=share.pk, right=Right.READ)
    assert {each.id for each in sessions_without_right(folder)} == {writer.pk, waiting.pk}
    with pytest.raises(PermissionDenied):
        end_sessions_without_right(actor=actor_for(place.owner), folder_id=folder.pk, session_ids=ids)
    assert end_sessions_without_right(actor=owner, folder_id=folder.pk, session_ids=ids) == 2

    assert [place.fresh(each).status for each in (writer, reader, waiting)] == [
        Status.TERMINATING, Status.RUNNING, Status.CANCELLED,
    ]  # fmt: skip
    assert place.fresh(waiting).status_reason == Reason.FOLDER_REVOKED
