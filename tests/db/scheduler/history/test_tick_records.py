"""Records of ticks: rows, snapshots that replay the same decision, and wait reasons of each session."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import DatabaseError
from django.test import Client
from django.urls import reverse

from accounts.core.roles import Role
from accounts.models import User
from agents.core.states import AgentState
from agents.models import Agent, ResourceGroup
from common import clock
from common.actors import SYSTEM
from scheduler import tick
from scheduler.history import recorder
from scheduler.history.recorder import delete_old_ticks, plan_digest
from scheduler.history.replay import past_wait, pending_periods, replay
from scheduler.models import KeptTick, WaitingReason
from scheduler.tasks import forget_old_ticks
from scheduler.tick import run_tick
from sessions_app.core.states import Reason, Status
from sessions_app.launch.launcher import launch_session
from sessions_app.launch.terminator import end_session
from sessions_app.models import ComputeSession
from sessions_app.queue.closed_groups import update_group_holds
from sessions_app.queue.priority import change_priority
from sessions_app.termination.service import begin_termination
from tests.factories import actor_for, api_client, make_user
from tests.factories_scheduler import Cluster, make_cluster
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db
CORE = {"cpu": 1000}
Browser = Callable[[User], Client]


@pytest.fixture(autouse=True)
def every_tick_is_pictured(monkeypatch: pytest.MonkeyPatch) -> None:
    """However soon one comes after the other."""
    monkeypatch.setattr(recorder, "SNAPSHOT_BYTES_PER_SECOND", 2**40)


@pytest.fixture
def cluster() -> Cluster:
    """Two cores on one machine, and a queue of three who want one, two and three."""
    cluster = make_cluster()
    cluster.add_agent({"cpu": 2000})
    return cluster


def fill(cluster: Cluster) -> list[ComputeSession]:
    return [
        cluster.add_pending({"cpu": cpu}, age_s=9 - index) for index, cpu in enumerate((1000, 2000, 3000))
    ]


def test_recorded_tick_replays_the_same_decision(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    committed = []
    commit = tick.commit_plan
    monkeypatch.setattr(tick, "commit_plan", lambda plan: committed.append(plan) or commit(plan))
    first, second, third = fill(cluster)
    run_tick(cluster.group.pk)

    [kept] = KeptTick.objects.all()
    assert (kept.placed, kept.waiting, kept.reasons) == (1, 2, {"no_capacity": 1, "never_fits": 1})
    assert kept.placements == [[first.pk.hex, [Agent.objects.get().pk]]]
    assert kept.picture_bytes == len(bytes(kept.picture or b"")) > 0
    again = replay(kept)
    assert again is not None
    assert again.is_same
    assert again.plan == committed[0]
    assert plan_digest(again.plan) == kept.digest
    assert [reason.reason for reason in pending_periods(second)] == ["no_capacity"]
    assert [reason.position for reason in pending_periods(third)] == [2]
    assert not pending_periods(first)


def test_replay_of_a_tick_is_cached(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(cluster)
    run_tick(cluster.group.pk)
    decided = replay(KeptTick.objects.get())
    assert decided is not None
    monkeypatch.setattr("scheduler.history.replay.simulate", lambda *_: pytest.fail("decided once more"))
    again = replay(KeptTick.objects.get())
    assert again is not None
    assert again.plan is decided.plan


def test_ticks_without_new_decisions_are_not_recorded(cluster: Cluster) -> None:
    fill(cluster)
    for _tick in range(3):
        run_tick(cluster.group.pk)
    assert KeptTick.objects.count() == 1
    cluster.add_pending(CORE)
    run_tick(cluster.group.pk)
    assert KeptTick.objects.count() == 2


def test_what_changes_often_is_pictured_less_often(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "SNAPSHOT_BYTES_PER_SECOND", 1)
    for _tick in range(2):
        cluster.add_pending({"cpu": 9000})
        run_tick(cluster.group.pk)
    second, first = KeptTick.objects.all()
    assert (first.picture_bytes > 0, second.picture_bytes, second.waiting) == (True, 0, 2)
    assert replay(second) is None


def test_wait_reasons_are_added_on_change_and_the_newest_retained(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MAX_REASONS", 3)
    waits = cluster.add_pending({"cpu": 9000})
    states = (AgentState.CONNECTED, AgentState.LOST)
    for number in range(5):
        Agent.objects.update(state=states[number % 2].value)
        run_tick(cluster.group.pk)
    reasons = [(each.number, each.reason) for each in WaitingReason.objects.filter(session=waits)]
    assert reasons == [(3, "never_fits"), (4, "no_agents"), (5, "never_fits")]


def test_another_process_adds_no_reason_twice(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(cluster)
    run_tick(cluster.group.pk)
    before = WaitingReason.objects.count()
    monkeypatch.setattr(recorder, "_last_records", type(recorder._last_records)(for_s=60))
    run_tick(cluster.group.pk)
    assert WaitingReason.objects.count() == before
    assert KeptTick.objects.count() == 2


def test_failed_recording_does_not_disturb_the_tick(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise DatabaseError("full")

    monkeypatch.setattr(recorder, "_add_reasons", refuse)
    fill(cluster)
    assert len(run_tick(cluster.group.pk)) == 1
    assert not KeptTick.objects.exists()


def test_past_wait_reason_is_found(cluster: Cluster) -> None:
    _, second, _ = fill(cluster)
    run_tick(cluster.group.pk)
    [stay] = pending_periods(second)
    assert (stay.until, stay.reason, stay.position) == (None, "no_capacity", 1)
    before, now = stay.since - timedelta(seconds=1), clock.now()
    wait = past_wait(second, now, [stay])
    assert wait is not None
    assert wait.tick is not None
    assert (wait.tick.position, wait.tick.waiting, wait.tick.placed, wait.tick.is_same) == (1, 2, 1, True)
    assert wait.message == wait.tick.message
    assert past_wait(second, before, [stay]) is None

    KeptTick.objects.update(picture=b"x", picture_bytes=1)
    unreadable = past_wait(second, now, [stay])
    assert unreadable is not None
    assert unreadable.tick is None
    second.transitions.create(
        from_status="PENDING", to_status="SCHEDULED", reason="placed", actor_label="a", happened_at=now
    )
    [ended] = pending_periods(fresh(second))
    assert ended.until == now
    assert past_wait(second, now, [ended]) is None


def fresh(session: ComputeSession) -> ComputeSession:
    return ComputeSession.objects.get(pk=session.pk)


@pytest.mark.parametrize("ticks_elsewhere", [False, True], ids=["one process", "another between"])
def test_retried_session_starts_a_new_wait_for_the_same_reason(ticks_elsewhere: bool) -> None:
    place, whole = make_place(), {"cpu": 8, "mem": "1g"}
    first = place.run(resources=whole)
    batch = place.enqueue(type="batch", command="make", resources=whole, max_retries=2)
    run_tick(place.group.pk)
    known = recorder._last_records.get(place.group.pk)
    place.end(first)
    run_tick(place.group.pk)
    launch_session(batch.pk)
    place.enqueue(name="other", resources=whole)
    begin_termination(batch.pk, reason=Reason.COMMAND_FAILED, actor=SYSTEM, exit_code=1)
    end_session(batch.pk)
    run_tick(place.group.pk)
    if ticks_elsewhere:
        assert known is not None
        recorder._last_records.put(place.group.pk, known)
    run_tick(place.group.pk)

    waits = place.fresh(batch)
    assert waits.status == Status.PENDING
    stays = pending_periods(waits)
    assert [(each.reason, each.until is None) for each in stays] == [
        ("no_capacity", False), ("no_capacity", True)
    ]  # fmt: skip
    assert past_wait(waits, clock.now(), stays) is not None


def test_held_session_does_not_wait_for_capacity() -> None:
    place = make_place()
    group = ResourceGroup.objects.filter(pk=place.group.pk)
    place.run(resources={"cpu": 8, "mem": "1g"})
    session = place.enqueue(type="batch", command="make")
    run_tick(place.group.pk)
    group.update(session_types=["interactive"])
    update_group_holds()
    held = clock.now()
    group.update(session_types=["interactive", "batch"])
    update_group_holds()
    run_tick(place.group.pk)  # which says what it said before, and adds nothing
    stays = pending_periods(fresh(session))
    assert [stay.reason for stay in stays] == ["no_capacity", "group_closed", "enqueued"]
    wait = past_wait(session, held, stays)
    assert wait is not None
    assert "not open to it any more" in wait.message


def test_a_changed_priority_is_in_the_next_picture() -> None:
    place = make_place(cpu_milli=1000)
    place.run()
    waits = place.enqueue()
    run_tick(place.group.pk)
    change_priority(actor=actor_for(place.owner), session_id=waits.pk, priority=-9)
    recorder._last_records = type(recorder._last_records)(for_s=60)
    run_tick(place.group.pk)
    latest = KeptTick.objects.first()
    assert latest is not None
    seen = replay(latest)
    assert seen is not None
    assert [each.priority for each in seen.snapshot.pending] == [-9]
    assert seen.deferral_for(uuid4()) is None


def test_old_ticks_and_large_pictures_are_forgotten(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in (9000, 8000, 7000):
        cluster.add_pending({"cpu": size})
        monkeypatch.setattr(recorder, "_last_records", type(recorder._last_records)(for_s=60))
        run_tick(cluster.group.pk)
    newest, middle, oldest = KeptTick.objects.all()
    monkeypatch.setattr(recorder, "MAX_SNAPSHOT_BYTES", newest.picture_bytes + middle.picture_bytes)
    forget_old_ticks()
    assert [each.picture_bytes > 0 for each in KeptTick.objects.all()] == [True, True, False]

    delete_old_ticks(before=oldest.planned_at + timedelta(microseconds=1))
    assert set(KeptTick.objects.all()) == {newest, middle}


def test_page_and_rest_explain_without_names(browser_of: Browser) -> None:
    place = make_place(cpu_milli=1000)
    place.run()
    other = make_user(member_of=place.project)
    place.enqueue(by=other, name="secret-plan")
    mine = place.enqueue()
    run_tick(place.group.pk)
    address, at = reverse("session-why", args=[mine.pk]), clock.now().isoformat()

    page = browser_of(place.owner).get(address).content.decode()
    assert "Waits for 1 core" in page
    then = browser_of(place.owner).get(address, {"at": at}).content.decode()
    assert "2 of 2" in then
    assert "secret-plan" not in then
    long_ago = browser_of(place.owner).get(address, {"at": "2020-01-01T00:00", "time_zone": "Asia/Seoul"})
    assert "It did not wait for a machine then" in long_ago.content.decode()
    assert browser_of(place.owner).get(address, {"at": "soon"}).status_code == 422
    assert browser_of(other).get(address).status_code == 404

    program = api_client(place.owner)
    answer = program.get(reverse("api-session-why", args=[mine.pk]), {"at": at}).json()
    assert [stay["reason"] for stay in answer["stays"]] == ["no_capacity"]
    assert (answer["wait"]["tick"]["position"], answer["wait"]["tick"]["is_same"]) == (2, True)
    assert program.get(reverse("api-session-why", args=[mine.pk])).json()["wait"] is None
    for asked in ("soon", "", [at, at]):
        refused = program.get(reverse("api-session-why", args=[mine.pk]), {"at": asked})
        assert "at" in refused.json()["fields"]


def test_the_scheduler_page_explains_ticks(browser_of: Browser) -> None:
    chief, place = make_user(role=Role.SUPERADMIN), make_place(cpu_milli=1000)
    browser, group = browser_of(chief), place.group
    listed = reverse("resource-group-scheduler", args=[group.pk])
    assert "No ticks yet" in browser.get(listed).content.decode()
    place.enqueue(name="ran")
    waits = place.enqueue(name="waits")
    run_tick(group.pk)
    tick = KeptTick.objects.get()
    assert "More than is free." in browser.get(listed).content.decode()
    address = reverse("resource-group-tick", args=[group.pk, tick.pk])
    page = browser.get(address).content.decode()
    for words in ("ran</a>", "waits</a>", place.agent.name, "Waits for 1 core"):
        assert words in page

    KeptTick.objects.update(digest="0" * 64, reservations=[[waits.pk.hex, [10**6], clock.now().isoformat()]])
    changed = browser.get(address).content.decode()
    assert "Berth was updated since then" in changed
    assert "#1000000" in changed
    KeptTick.objects.update(picture=None, picture_bytes=0, commit_us=2_500_000)
    bare = browser.get(address).content.decode()
    assert "The full snapshot was not kept" in bare
    assert "2.5 s" in bare

    rows = api_client(chief).get(reverse("api-ticks", args=[group.pk])).json()["results"]
    assert [(row["placed"], row["waiting"], row["reasons"], row["is_replayable"]) for row in rows] == [
        (1, 1, {"no_capacity": 1}, False)
    ]
    assert browser.get("/scheduler/")["Location"] == listed
    other = ResourceGroup.objects.create(name="elsewhere")
    shown = browser.get(listed).content.decode()
    assert reverse("resource-group-scheduler", args=[other.pk]) in shown, "the way to the other groups"
    foreign = reverse("resource-group-tick", args=[other.pk, tick.pk])
    assert browser.get(foreign).status_code == 404
