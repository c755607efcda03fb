"""Sizes of folders are measured, stored, shown, and checked against limits."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from django.db import connection

from accounts.core.limits import Limit
from accounts.models import Project, User
from common import clock
from common.errors import LimitExceeded, NotFound
from sessions_app.admission import load
from sessions_app.admission.forecast import forecast_session
from sessions_app.core.request import parse_request
from tests.factories import actor_for, make_project, make_user
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit, use_of
from tests.factories_sessions import Place, make_place
from vfolders import tasks, usage
from vfolders.core.paths import TRASH
from vfolders.files import service
from vfolders.models import StorageHost, VFolder
from vfolders.services import create_folder
from vfolders.storage import descriptors
from vfolders.storage.backends.local import LocalStorage
from vfolders.storage.base import Capability, Effort, Usage
from vfolders.trash import delete_folder

KIB = 1024


@pytest.fixture
def project(db: None, tmp_path: Path) -> Project:
    make_storage_host(tmp_path)
    return make_project()


@pytest.fixture
def owner(project: Project) -> User:
    return make_user(member_of=project)


@pytest.fixture
def folder(owner: User) -> VFolder:
    return make_folder(owner, name="data")


def upload(folder: VFolder, owner: User, path: str, size: int, *, expected: int | None = None) -> None:
    chunks = (b"x" * min(KIB, size - at) for at in range(0, size, KIB))
    service.write_file(
        actor=actor_for(owner), folder_id=folder.pk, path=path, chunks=chunks,
        expected_bytes=size if expected is None else expected,
    )  # fmt: skip


def written_by_a_session(folder: VFolder, name: str, size: int) -> Path:
    path = Path(folder.host.config["root"]) / folder.pk.hex / name
    path.write_bytes(b"x" * size)
    return path


def test_a_folder_that_its_host_does_not_count_is_counted_here(
    folder: VFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_by_a_session(folder, "a", 3 * KIB)
    monkeypatch.setattr(LocalStorage, "capabilities", frozenset({Capability.USAGE}))
    monkeypatch.setattr(LocalStorage, "used_bytes", lambda storage, folder_id: None)
    assert measure_due_folders() == 1
    folder.refresh_from_db()
    assert folder.size_bytes == 3 * KIB


def test_a_session_that_writes_into_the_trash_hides_no_size(
    folder: VFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = written_by_a_session(folder, "a", KIB).parent / TRASH / "0000000001-aaaaaaaaaaaa"
    (old / "kept").mkdir(parents=True)

    def write_again(directory: int, deadline: float) -> None:
        assert deadline < time.monotonic() + 30
        raise descriptors.StillChanging(old.name)

    monkeypatch.setattr(descriptors, "_empty", write_again)
    assert measure_due_folders() == 1
    folder.refresh_from_db()
    assert folder.size_bytes == KIB


def test_a_folder_that_cannot_be_counted_stops_no_other(
    owner: User, folder: VFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_folder(owner, name="other")
    measure = usage.measure

    def fail_for_one(each: VFolder, effort: Effort) -> Usage:
        if each.pk == folder.pk:
            raise OverflowError("too much")
        return measure(each, effort)

    monkeypatch.setattr(usage, "measure", fail_for_one)
    assert measure_due_folders() == 1
    other.refresh_from_db()
    assert other.measured_at is not None


def measure_due_folders() -> int:
    return sum(usage.measure_due_folders(host_id) for host_id in usage.hosts_with_due_folders())


def test_each_host_is_counted_for_itself(
    owner: User, folder: VFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = StorageHost.objects.create(name="other", config={"root": str(tmp_path / "other")})
    there = make_folder(owner, name="there")
    (tmp_path / "other" / there.pk.hex).mkdir(parents=True)
    VFolder.objects.filter(pk=there.pk).update(host=other)
    assert sorted(usage.hosts_with_due_folders()) == sorted([folder.host_id, other.pk])
    asked: list[int] = []
    monkeypatch.setattr(tasks, "enqueue_on_commit", lambda _name, host_id: asked.append(host_id))
    tasks.measure_folders()
    assert sorted(asked) == sorted([folder.host_id, other.pk])
    tasks.measure_folders(other.pk)
    assert (fresh(there).measured_at is not None, fresh(folder).measured_at) == (True, None)


def test_declared_upload_size_reserves_nothing(
    owner: User, folder: VFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "STEP_BYTES", 4 * KIB)
    limit(owner, max_folder_bytes=100 * KIB)
    seen: list[int] = []

    def slow() -> Iterator[bytes]:
        for _ in range(20):
            seen.append(use_of(owner).get("folder_bytes", 0))
            yield bytes(KIB)

    actor = actor_for(owner)
    service.write_file(actor=actor, folder_id=folder.pk, path="a", chunks=slow(), expected_bytes=90 * KIB)
    assert max(taken - number * KIB for number, taken in enumerate(seen)) <= 5 * KIB
    assert use_of(owner)["folder_bytes"] == 20 * KIB
    with pytest.raises(LimitExceeded):
        service.write_file(actor=actor, folder_id=folder.pk, path="b", chunks=slow(), expected_bytes=90 * KIB)
    assert len(seen) == 20, "refused before the first byte"
    assert use_of(owner)["folder_bytes"] == 20 * KIB


def test_an_empty_file_that_goes_asks_for_no_count(owner: User, folder: VFolder) -> None:
    upload(folder, owner, "empty", 0)
    VFolder.objects.filter(pk=folder.pk).update(measure_at=clock.now() + timedelta(hours=1))
    service.delete_entry(actor=actor_for(owner), folder_id=folder.pk, path="empty")
    assert fresh(folder).measure_at > clock.now()


def fresh(folder: VFolder) -> VFolder:
    return VFolder.objects.select_related("host").get(pk=folder.pk)


def test_uploads_and_deletions_count_at_once_for_the_owner_and_the_domain(
    project: Project, owner: User, folder: VFolder
) -> None:
    upload(folder, owner, "a", 5 * KIB)
    upload(folder, owner, "a", 3 * KIB)
    upload(folder, owner, "sub/b", KIB, expected=0)
    assert fresh(folder).size_bytes == 4 * KIB
    assert use_of(owner)["folder_bytes"] == use_of(project.domain)["folder_bytes"] == 4 * KIB

    service.delete_entry(actor=actor_for(owner), folder_id=folder.pk, path="a")
    assert fresh(folder).size_bytes == KIB
    service.delete_entry(actor=actor_for(owner), folder_id=folder.pk, path="sub")
    assert fresh(folder).measure_at <= clock.now()
    assert measure_due_folders() == 1
    assert (fresh(folder).size_bytes, use_of(owner).get("folder_bytes")) == (0, None)


@pytest.mark.parametrize("expected", [0, 3 * KIB])
def test_an_upload_above_the_limit_is_refused_and_leaves_everything_as_it_was(
    owner: User, folder: VFolder, expected: int
) -> None:
    limit(owner, max_folder_bytes=4 * KIB)
    upload(folder, owner, "a", 2 * KIB)
    with pytest.raises(LimitExceeded) as refused:
        upload(folder, owner, "b", 3 * KIB, expected=expected)
    assert refused.value.message == "Your account has 2 KiB left of 4 KiB for folders; you asked for 3 KiB."
    assert "Delete files" in refused.value.hint
    assert [entry.name for entry in service.list_directory(
        actor=actor_for(owner), folder_id=folder.pk, path=""
    ).entries] == ["a"]  # fmt: skip
    assert use_of(owner)["folder_bytes"] == 2 * KIB

    upload(folder, owner, "a", 4 * KIB)  # what it replaces makes room
    assert use_of(owner)["folder_bytes"] == 4 * KIB


def test_large_uploads_of_unknown_size_are_refused_on_the_way(
    owner: User, folder: VFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "STEP_BYTES", 2 * KIB)
    limit(owner, max_folder_bytes=5 * KIB)
    taken: list[int] = []

    def chunks():  # type: ignore[no-untyped-def]
        for number in range(100):
            taken.append(number)
            yield b"x" * KIB

    with pytest.raises(LimitExceeded):
        service.write_file(actor=actor_for(owner), folder_id=folder.pk, path="a", chunks=chunks())
    assert len(taken) < 10
    assert fresh(folder).size_bytes == 0


def test_what_sessions_wrote_is_found_by_counting_and_then_nothing_more_is_taken(
    owner: User, project: Project, folder: VFolder
) -> None:
    limit(owner, max_folder_bytes=4 * KIB)
    shared = make_folder(owner, name="shared", project=project)
    written_by_a_session(folder, "big", 6 * KIB)
    assert measure_due_folders() == 2
    assert fresh(folder).measured_at is not None

    sentence = "Your account uses 6 KiB for folders, 2 KiB more than its limit of 4 KiB."
    with pytest.raises(LimitExceeded, match=sentence):
        upload(folder, owner, "more", 1)
    with pytest.raises(LimitExceeded, match=sentence):
        create_folder(actor=actor_for(owner), name="another")
    upload(folder, owner, "nothing", 0)
    upload(shared, owner, "fine", KIB)
    create_folder(actor=actor_for(owner), name="another", project=project.name)

    service.delete_entry(actor=actor_for(owner), folder_id=folder.pk, path="big")
    create_folder(actor=actor_for(owner), name="another")


def test_a_folder_that_goes_or_changes_hands_takes_its_bytes_along(
    project: Project, owner: User, folder: VFolder
) -> None:
    heir = make_user(member_of=project)
    upload(folder, owner, "a", KIB)
    VFolder.objects.filter(pk=folder.pk).update(owner=heir)
    assert (use_of(owner), use_of(heir)) == ({}, {"folders": 1, "folder_bytes": KIB})
    delete_folder(actor=actor_for(heir), folder_id=folder.pk)
    assert (use_of(heir), use_of(project.domain)) == ({}, {})


def test_a_count_that_was_cut_short_never_makes_a_size_smaller(owner: User, folder: VFolder) -> None:
    upload(folder, owner, "a", 5 * KIB)
    usage.store_measurement(fresh(folder), Usage(KIB, 1, is_complete=False), at=clock.now(), took_s=1)
    assert (fresh(folder).size_bytes, fresh(folder).is_size_whole) == (5 * KIB, False)
    usage.store_measurement(fresh(folder), Usage(KIB, 1, is_complete=True), at=clock.now(), took_s=1)
    assert (fresh(folder).size_bytes, fresh(folder).is_size_whole) == (KIB, True)


def test_still_folders_are_counted_ever_less_often_and_slow_ones_seldom(folder: VFolder) -> None:
    at, pauses = clock.now(), []
    for took_s in (0, 0, 0, 0, 0, 0, 600):
        usage.store_measurement(fresh(folder), Usage(0, 0, is_complete=True), at=at, took_s=took_s)
        pauses.append(round((fresh(folder).measure_at - at).total_seconds() / 60))
        at = fresh(folder).measure_at
    assert pauses == [2, 4, 8, 16, 32, 60, 200]
    usage.store_measurement(fresh(folder), Usage(1, 1, is_complete=True), at=at, took_s=0)
    assert fresh(folder).measure_at - at == usage.SHORTEST_INTERVAL


def test_write_during_measurement_is_measured_again_soon(owner: User, folder: VFolder) -> None:
    VFolder.objects.filter(pk=folder.pk).update(measure_at=clock.now() + timedelta(hours=1))
    before = fresh(folder)
    upload(folder, owner, "a", KIB)
    usage.store_measurement(before, Usage(0, 0, is_complete=True), at=clock.now(), took_s=0)
    assert fresh(folder).measure_at <= clock.now() + usage.SHORTEST_INTERVAL


def test_a_host_that_is_away_does_not_stop_the_round(owner: User, folder: VFolder) -> None:
    other = make_folder(owner, name="other")
    os.rmdir(Path(folder.host.config["root"]) / folder.pk.hex)
    assert measure_due_folders() == 1
    assert fresh(folder).measured_at is None
    assert fresh(folder).measure_at > clock.now()
    assert fresh(other).measured_at is not None


def test_counting_on_demand_is_kept_and_hidden_from_strangers(owner: User, folder: VFolder) -> None:
    written_by_a_session(folder, "a", KIB)
    assert service.measure_folder(actor=actor_for(owner), folder_id=folder.pk).size_bytes == KIB
    assert fresh(folder).size_bytes == KIB
    with pytest.raises(NotFound):
        service.measure_folder(actor=actor_for(make_user()), folder_id=folder.pk)


def test_limits_above_are_named_at_the_folder(owner: User, project: Project, folder: VFolder) -> None:
    upload(folder, owner, "a", 2 * KIB)
    limit(owner, max_folder_bytes=KIB)
    limit(project.domain, max_folder_bytes=3 * KIB)
    (state,) = usage.exceeded_limits(folder)
    assert (state.level, state.limit, state.over) == ("user", Limit.FOLDER_BYTES, KIB)


def test_who_is_above_the_limit_starts_no_session_that_writes_and_what_runs_goes_on(
    db: None, tmp_path: Path
) -> None:
    make_storage_host(tmp_path)
    place = make_place()
    own = make_folder(place.owner, name="own")
    shared = make_folder(place.owner, name="shared", project=place.project)
    running = place.run(mounts=[{"folder": "own"}, {"folder": "shared"}])
    limit(place.project, max_folder_bytes=KIB)
    written_by_a_session(shared, "big", 3 * KIB)
    measure_due_folders()

    sentence = (
        f"The project “{place.project.name}” uses 3 KiB for folders, 2 KiB more than its limit of 1 KiB."
    )
    for attempt in (place.enqueue, forecast(place)):
        with pytest.raises(LimitExceeded) as refused:
            attempt(mounts=[{"folder": "shared"}])
        assert refused.value.message == sentence
    place.enqueue(mounts=[{"folder": "shared", "readonly": True}, {"folder": str(own.pk)}])
    place.enqueue()
    assert place.fresh(running).is_running


def test_a_count_between_the_check_and_the_row_is_seen_by_the_row(
    db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_storage_host(tmp_path)
    place = make_place()
    folder = make_folder(place.owner, name="own")
    limit(place.owner, max_folder_bytes=KIB)
    lock = load.lock_folders

    def count_and_lock(folder_ids: Iterable[UUID]) -> None:
        written_by_a_session(folder, "big", 3 * KIB)
        measure_due_folders()
        lock(folder_ids)

    monkeypatch.setattr(load, "lock_folders", count_and_lock)
    with pytest.raises(LimitExceeded, match="2 KiB more than its limit"):
        place.enqueue(mounts=[{"folder": "own"}])


def forecast(place: Place) -> Callable[..., object]:
    return lambda **changes: forecast_session(actor_for(place.owner), parse_request(place.request(**changes)))


@pytest.mark.django_db(transaction=True)
def test_uploads_at_the_same_moment_do_not_get_around_the_limit(project: Project, owner: User) -> None:
    limit(owner, max_folder_bytes=4 * KIB)
    folders = [make_folder(owner, name=f"folder-{number}") for number in range(3)]

    def put(number: int) -> None:
        try:
            upload(folders[number % 3], owner, f"file-{number}", KIB)
        except LimitExceeded:
            pass
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(put, range(12)))
    assert use_of(owner)["folder_bytes"] == 4 * KIB
    assert (
        sum(service.measure_folder(actor=actor_for(owner), folder_id=each.pk).size_bytes for each in folders)
        == 4 * KIB
    )
