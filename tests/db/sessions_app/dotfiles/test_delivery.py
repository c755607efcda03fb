"""Delivery of dotfiles and start-up script at launch, and its result."""

import io
import os
import subprocess
import tarfile
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from agents.runtime.port import (
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    ProcessResult,
    ProcessTimeout,
    RuntimeRefused,
)
from agents.runtime.simulated.runtime import SimulatedRuntime
from common import clock
from sessions_app.core.home_setup import BEGIN, MARK, SETUP, STATUS
from sessions_app.dotfiles import delivery
from sessions_app.dotfiles.service import put_dotfile, set_startup_script
from sessions_app.launch.launcher import launch_session
from sessions_app.models import ComputeSession, Kernel, PersonalSetup
from sessions_app.presentation import detail
from sessions_app.presentation import session as presentation_session
from tests import factories
from tests.factories import actor_for, api_client
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]

BrowserOf = Callable[[User], Client]
FILE, SCRIPT = "/api/v1/dotfiles/file/", "/api/v1/startup-script/"


class SpeakingRuntime(SimulatedRuntime):
    """Keeps what was put into containers, and answers every process with `says`."""

    says = b""
    refuses = False

    def ensure_container(self, spec: ContainerSpec) -> ContainerState:
        self.spec = spec
        return super().ensure_container(spec)

    def put_archive(self, name: str, path: str, tar_bytes: bytes) -> None:
        if self.refuses:
            raise RuntimeRefused("no")
        self.put = (path, tar_bytes)

    def run_process(self, name: str, argv: Any, **options: Any) -> ProcessResult:
        return ProcessResult(exit_code=0, output=self.says)


@pytest.fixture
def engine(place: Place) -> SpeakingRuntime:
    found = place.replace_runtime(SpeakingRuntime)
    assert isinstance(found, SpeakingRuntime)
    found.says = b"files\n"
    return found


def keep(place: Place, *, script: str | None = "date\n", **files: str) -> None:
    actor = actor_for(place.owner)
    for path, content in (files or {"bashrc": "alias a=b\n"}).items():
        put_dotfile(actor=actor, path=f".{path}", content=content)
    if script is not None:
        set_startup_script(actor=actor, content=script)


def setup_of(session: ComputeSession) -> PersonalSetup:
    return PersonalSetup.objects.get(session=session)


def told(session: ComputeSession) -> list[str]:
    """What the history of the session says of it."""
    found = ComputeSession.objects.with_parts().get(pk=session.pk)
    return [
        entry["title"]
        for entry in presentation_session.history(actor_for(found.owner), found)
        if "title" in entry
    ]


def test_a_session_begins_with_what_its_owner_keeps(place: Place, engine: SpeakingRuntime) -> None:
    keep(place)
    place.run()
    where, archive = engine.put
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        assert set(opened.getnames()) == {"begin", "0", "script"}
        assert opened.extractfile("0").read() == b"alias a=b\n"  # type: ignore[union-attr]
    spec = engine.spec
    assert where == SETUP
    assert BEGIN in spec.command[2]
    assert SETUP in [mount.target for mount in spec.mounts]


@pytest.mark.parametrize("is_wanted", [True, False])
def test_no_set_up_without_dotfiles(place: Place, engine: SpeakingRuntime, is_wanted: bool) -> None:
    if not is_wanted:
        keep(place)
    place.run(personal_files=is_wanted)
    spec = engine.spec
    assert not hasattr(engine, "put")
    assert BEGIN not in spec.command[2]
    assert not PersonalSetup.objects.exists()


def test_a_file_that_would_lie_in_a_mounted_folder_is_left_out(
    place: Place, engine: SpeakingRuntime, tmp_path: Path
) -> None:
    make_storage_host(tmp_path)
    make_folder(place.owner, name="shared")
    keep(place, script=None, shared="file", bashrc="x")
    put_dotfile(actor=actor_for(place.owner), path="shared/notes", content="private")
    session = place.run(mounts=[{"folder": "shared"}])
    assert b"private" not in engine.put[1]
    assert setup_of(session).skipped == [{"path": "shared/notes", "why": "folder"}]
    assert told(session) == ["“shared/notes” was not written: it would lie in a folder of this session."]


def test_skipped_dotfiles_are_shown_to_their_owner_only(place: Place, engine: SpeakingRuntime) -> None:
    engine.says = b"skipped 0 link\nskipped 7 link\nfiles\n"
    keep(place, script=None)
    session = ComputeSession.objects.with_parts().get(pk=place.run().pk)
    found = detail.outcome(actor_for(place.owner), session)
    assert found is not None
    assert "“.bashrc” was not written: there is a link on the way." in found["text"]
    answer = api_client(place.owner).get(f"/api/v1/sessions/{session.pk}/").data
    assert answer["setup"]["messages"] == ["“.bashrc” was not written: there is a link on the way."]
    assert answer["setup"]["script"] == "none"
    monitor = factories.make_user(domain=place.owner.domain, role=Role.DOMAIN_MONITOR)
    assert api_client(monitor).get(f"/api/v1/sessions/{session.pk}/").data["setup"] is None
    assert len(presentation_session.history(actor_for(monitor), session)) == 5


@pytest.mark.parametrize(
    ("says", "script", "sentence"),
    [
        (b"script 0 4\n", "done", "Your start-up script ran for 4 s."),
        (b"script 3 4\n", "failed", "failed with exit code 3 after 4 s"),
        (b"script 124 60\n", "timed_out", "was stopped after 60 s"),
    ],
)
def test_what_came_of_a_script_is_learned_later(
    place: Place, engine: SpeakingRuntime, says: bytes, script: str, sentence: str
) -> None:
    keep(place)
    session = place.run()
    assert setup_of(session).script == "running"
    delivery.record_setups()
    assert told(session) == ["Your start-up script is running."]
    engine.says += says
    delivery.record_setups()
    assert setup_of(session).script == script
    assert sentence in told(session)[0]


def test_a_failure_on_the_way_to_the_container_does_not_keep_the_session(
    place: Place, engine: SpeakingRuntime
) -> None:
    engine.refuses = True
    engine.says = b""
    keep(place)
    assert place.run().is_running


class HangingRuntime(SpeakingRuntime):
    """Containers named in `hanging` answer no question. A question waits until as many as `together` are asked."""

    hanging: frozenset[str] = frozenset()
    together = threading.Barrier(1)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked: list[str] = []

    def run_process(self, name: str, argv: Any, **options: Any) -> ProcessResult:
        self.asked.append(name)
        self.together.wait(30)
        if name in self.hanging:
            raise ProcessTimeout("silent")
        return super().run_process(name, argv, **options)


@pytest.fixture
def hanging(place: Place) -> HangingRuntime:
    engine = place.replace_runtime(HangingRuntime)
    assert isinstance(engine, HangingRuntime)
    return engine


def test_a_container_that_does_not_answer_holds_up_no_other(place: Place, hanging: HangingRuntime) -> None:
    keep(place)
    first, second = place.run(), place.run()
    hanging.hanging = frozenset({first.kernels.get().container_name})
    hanging.says = b"script 0 4\n"
    delivery.record_setups()
    assert (setup_of(first).script, setup_of(second).script) == ("running", "done")
    hanging.asked.clear()
    delivery.record_setups()
    assert hanging.asked == []  # it is not asked again for a while


def test_containers_are_asked_together(place: Place, hanging: HangingRuntime) -> None:
    keep(place)
    sessions = [place.run() for _number in range(3)]
    hanging.says = b"script 0 4\n"
    hanging.together = threading.Barrier(3)
    delivery.record_setups()
    assert [setup_of(session).script for session in sessions] == ["done"] * 3


def test_all_containers_run_before_their_files_are_waited_for_and_all_have_one_time(
    place: Place, hanging: HangingRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(place)
    session = place.place()
    main = session.kernels.get()
    other = Kernel.objects.create(session=session, role="sub", agent=main.agent)
    names = (main.container_name, other.container_name)
    hanging.hanging = frozenset(names)
    hanging.together = threading.Barrier(2)
    asked = []

    def await_files(*args: Any) -> None:
        asked.extend(hanging.inspect_container(name).status for name in names)  # type: ignore[union-attr]
        await_in_time(*args)

    await_in_time = delivery.await_files
    monkeypatch.setattr(delivery, "await_files", await_files)
    launch_session(session.pk)
    assert asked == [ContainerStatus.RUNNING] * 2
    assert place.fresh(session).is_running


def test_files_that_did_not_arrive_are_not_waited_for(place: Place, hanging: HangingRuntime) -> None:
    keep(place)
    session = place.place()
    hanging.refuses = True
    hanging.hanging = frozenset({session.kernels.get().container_name})
    launch_session(session.pk)
    assert place.fresh(session).is_running
    assert hanging.asked == []


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_only_a_plain_file_is_read(tmp_path: Path, kind: str) -> None:
    status, elsewhere = tmp_path / "status", tmp_path / "elsewhere"
    elsewhere.write_text("files")
    if kind == "fifo":
        os.mkfifo(status)
    else:
        status.symlink_to(elsewhere)
    line = delivery._READ_COMMAND.replace(STATUS, str(status))
    answer = subprocess.run(["sh", "-c", line], capture_output=True, timeout=30, check=False)
    assert answer.stdout == b""
    status.unlink()
    status.write_text("files")
    assert subprocess.run(["sh", "-c", line], capture_output=True, check=True).stdout == b"files"


def test_a_script_of_which_nothing_is_heard_is_not_waited_for(
    place: Place, engine: SpeakingRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(place)
    session = place.run()
    later = clock.now() + timedelta(seconds=1000)
    monkeypatch.setattr("sessions_app.dotfiles.delivery.clock.now", lambda: later)
    delivery.record_setups()
    assert setup_of(session).script == "unknown"


def test_a_script_that_failed_before_a_short_command_is_read_from_the_log(
    place: Place, engine: SpeakingRuntime
) -> None:
    keep(place)
    session = place.run()
    delivery.record_setup_at_end(session, f"out\n{MARK} exit code 2 after 1 s\n".encode())
    assert (setup_of(session).script, setup_of(session).exit_code) == ("failed", 2)
    delivery.record_setup_at_end(session, b"")


@pytest.mark.parametrize(("reason", "script"), [("command_finished", "done"), ("user_requested", "unknown")])
def test_the_end_of_a_session_ends_what_is_known_of_its_script(
    place: Place, engine: SpeakingRuntime, reason: str, script: str
) -> None:
    keep(place)
    session = place.run()
    session.outcome_reason = reason
    delivery.record_setup_at_end(session, b"")
    assert setup_of(session).script == script
