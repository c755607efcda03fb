"""Dotfiles and start-up script: kept by their person, delivered at the launch, and what came of them."""

import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from accounts.keypairs import rotate_keypair
from accounts.models import KeyPair, User
from accounts.roles import Role
from agents.runtime.base import (
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    ProcessResult,
    ProcessTimeout,
    RuntimeRefused,
)
from agents.runtime.simulated import SimulatedRuntime
from common import clock
from common.models import AuditEntry
from sessions_app import presenters, presenters_detail, setups
from sessions_app.dotfile_rules import MAX_CONTENT_BYTES, MOST_DOTFILES
from sessions_app.launcher import launch_session
from sessions_app.models import ComputeSession, Dotfile, Kernel, PersonalSetup, StartupScript
from sessions_app.personal_files import put_dotfile, set_startup_script
from sessions_app.setup_parts import BEGIN, MARK, SETUP, STATUS
from tests import factories
from tests.conftest import People
from tests.factories import actor_for, api_client, make_token
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]

BrowserOf = Callable[[User], Client]
FILE, SCRIPT = "/api/v1/dotfiles/file/", "/api/v1/startup-script/"


# Kept by their person


def test_a_file_is_kept_shown_replaced_and_removed(people: People) -> None:
    client = api_client(people.member)
    made = client.put(FILE, {"path": ".bashrc", "content": "alias a=b\n"})
    assert (made.status_code, made.data["mode"], made.data["size_bytes"]) == (201, "0644", 10)
    assert client.put(FILE, {"path": ".bashrc", "content": "", "mode": "600"}).status_code == 200
    listed = client.get("/api/v1/dotfiles/").data["results"]
    assert [(each["path"], each["mode"]) for each in listed] == [(".bashrc", "0600")]
    assert client.get(f"{FILE}?path=.bashrc").data["content"] == ""
    assert client.delete(f"{FILE}?path=.bashrc").status_code == 204
    assert client.get(f"{FILE}?path=.bashrc").status_code == 404
    assert client.delete(FILE).status_code == 400
    assert not any("alias" in str(entry.changes) for entry in AuditEntry.objects.all())


def test_files_are_their_persons_alone(people: People) -> None:
    put_dotfile(actor=actor_for(people.member), path=".bashrc", content="secret")
    for other in (people.project_admin, people.domain_admin, people.superadmin):
        assert api_client(other).get(f"{FILE}?path=.bashrc").status_code == 404
        assert api_client(other).get("/api/v1/dotfiles/").data["count"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"path": "../x", "content": ""}, "path"),
        ({"path": ".ssh/authorized_keys", "content": ""}, "path"),
        ({"path": "x", "content": "x" * (MAX_CONTENT_BYTES + 1)}, "content"),
        ({"path": "x", "content": "a\0"}, "content"),
        ({"path": "x", "content": "", "mode": "4755"}, "mode"),
        ({"path": "x"}, "content"),
    ],
)
def test_wrong_files_are_refused_at_their_field(people: People, body: dict[str, str], field: str) -> None:
    refused = api_client(people.member).put(FILE, body)
    assert (refused.status_code, set(refused.data["fields"])) == (400, {field})


def test_a_file_stands_in_no_others_way(people: People) -> None:
    actor = actor_for(people.member)
    put_dotfile(actor=actor, path=".config/git", content="")
    refused = api_client(people.member).put(FILE, {"path": ".config", "content": ""})
    assert (refused.status_code, refused.data["code"]) == (409, "conflict")


def test_somebody_keeps_so_many_files_and_no_more(people: People) -> None:
    Dotfile.objects.bulk_create(Dotfile(user=people.member, path=f"f{n}") for n in range(MOST_DOTFILES))
    client = api_client(people.member)
    assert client.put(FILE, {"path": "one-more", "content": ""}).status_code == 422
    assert client.put(FILE, {"path": "f1", "content": "changed"}).status_code == 200


@pytest.mark.parametrize(
    ("route", "body"), [(FILE, {"path": ".bashrc", "content": "x"}), (SCRIPT, {"content": "x"})]
)
def test_a_token_that_reaches_less_leaves_nothing_for_later_sessions(
    people: People, route: str, body: dict[str, str]
) -> None:
    for scopes in (("sessions",), ("sessions", "folders"), ("sessions", "admin")):
        weak = APIClient(HTTP_AUTHORIZATION=f"Bearer {make_token(people.member, scopes=scopes)}")
        refused = weak.put(route, body)
        assert (refused.status_code, refused.data["code"]) == (403, "scope_missing"), scopes
    whole = APIClient(HTTP_AUTHORIZATION=f"Bearer {make_token(people.member)}")
    token = KeyPair.objects.filter(user=people.member).latest("pk")
    limit(token, max_sessions=1)
    assert whole.put(route, body).status_code == 403
    KeyPair.objects.update(policy=None)
    rotate_keypair(actor=actor_for(people.member), keypair_id=token.pk, grace=timedelta(hours=1))
    assert whole.get("/api/v1/dotfiles/").status_code == 200
    assert whole.put(route, body).status_code == 403
    assert not Dotfile.objects.exists()
    assert not StartupScript.objects.exists()


def test_a_script_is_set_shown_and_removed(people: People) -> None:
    client = api_client(people.member)
    assert client.get(SCRIPT).status_code == 404
    assert client.put(SCRIPT, {"content": "  \n"}).status_code == 400
    assert client.put(SCRIPT, {"content": "date\n"}).data["content"] == "date\n"
    assert client.delete(SCRIPT).status_code == 204
    assert client.delete(SCRIPT).status_code == 404


def test_the_page_keeps_files_and_script_without_javascript(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.member)
    page = reverse("dotfiles")
    browser.post(page, {"path": ".bashrc", "content": "a\r\nb\r\n", "mode": "0600"})
    assert Dotfile.objects.get().content == "a\nb\n"
    shown = browser.get(f"{page}?path=.bashrc").content.decode()
    assert "a\nb" in shown
    browser.post(f"{page}?path=.bashrc", {"path": "other", "content": "<b>", "mode": "0600"})
    assert list(Dotfile.objects.values_list("path", "content")) == [(".bashrc", "<b>")]
    refused = browser.post(page, {"path": "/etc/x", "content": "typed", "mode": "0644"})
    assert refused.status_code == 400
    assert "typed" in refused.content.decode()
    assert browser.get(f"{page}?path=absent").status_code == 404
    browser.post(reverse("set-startup-script"), {"content": "date\r\n"})
    assert StartupScript.objects.get().content == "date\n"
    assert browser.post(reverse("set-startup-script"), {"content": " "}).status_code == 400
    browser.post(reverse("remove-startup-script"))
    browser.post(reverse("remove-dotfile"), {"path": ".bashrc"})
    assert not Dotfile.objects.exists()
    assert not StartupScript.objects.exists()


# Delivered at the launch


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
def place() -> Place:
    return make_place()


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
    return [entry["title"] for entry in presenters.history(actor_for(found.owner), found) if "title" in entry]


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
def test_nothing_is_done_where_nothing_is_kept_or_wanted(
    place: Place, engine: SpeakingRuntime, is_wanted: bool
) -> None:
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


def test_what_was_not_written_is_said_to_its_owner_alone(place: Place, engine: SpeakingRuntime) -> None:
    engine.says = b"skipped 0 link\nskipped 7 link\nfiles\n"
    keep(place, script=None)
    session = ComputeSession.objects.with_parts().get(pk=place.run().pk)
    found = presenters_detail.outcome(actor_for(place.owner), session)
    assert found is not None
    assert "“.bashrc” was not written: there is a link on the way." in found["text"]
    answer = api_client(place.owner).get(f"/api/v1/sessions/{session.pk}/").data
    assert answer["setup"]["messages"] == ["“.bashrc” was not written: there is a link on the way."]
    assert answer["setup"]["script"] == "none"
    monitor = factories.make_user(domain=place.owner.domain, role=Role.DOMAIN_MONITOR)
    assert api_client(monitor).get(f"/api/v1/sessions/{session.pk}/").data["setup"] is None
    assert len(presenters.history(actor_for(monitor), session)) == 5


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
    setups.note_setups()
    assert told(session) == ["Your start-up script is running."]
    engine.says += says
    setups.note_setups()
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
    """Containers named in `hanging` answer no question; each takes its whole time on a clock of its own."""

    now_s = 0.0
    hanging: frozenset[str] = frozenset()

    def run_process(self, name: str, argv: Any, **options: Any) -> ProcessResult:
        if name in self.hanging:
            self.now_s += options["timeout_s"]
            raise ProcessTimeout("silent")
        return super().run_process(name, argv, **options)


@pytest.fixture
def hanging(place: Place, monkeypatch: pytest.MonkeyPatch) -> HangingRuntime:
    engine = place.replace_runtime(HangingRuntime)
    assert isinstance(engine, HangingRuntime)
    monkeypatch.setattr(setups, "time", SimpleNamespace(monotonic=lambda: engine.now_s))
    return engine


def test_a_container_that_does_not_answer_holds_up_no_other(place: Place, hanging: HangingRuntime) -> None:
    keep(place)
    first, second = place.run(), place.run()
    hanging.hanging = frozenset({first.kernels.get().container_name})
    hanging.says = b"script 0 4\n"
    setups.note_setups()
    assert (setup_of(first).script, setup_of(second).script) == ("running", "done")
    setups.note_setups()
    assert hanging.now_s == setups.READ_S  # it was not asked again
    others = [place.run() for _n in range(8)]
    hanging.hanging = frozenset(other.kernels.get().container_name for other in others)
    hanging.now_s = 0
    setups.note_setups()
    assert hanging.now_s <= setups.ASKING_S + setups.READ_S


def test_all_containers_run_before_their_files_are_waited_for_and_all_have_one_time(
    place: Place, hanging: HangingRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(place)
    session = place.place()
    main = session.kernels.get()
    other = Kernel.objects.create(session=session, role="sub", agent=main.agent)
    names = (main.container_name, other.container_name)
    hanging.hanging = frozenset(names)
    asked = []

    def await_files(*args: Any) -> None:
        asked.extend(hanging.inspect_container(name).status for name in names)  # type: ignore[union-attr]
        await_in_time(*args)

    await_in_time = setups.await_files
    monkeypatch.setattr(setups, "await_files", await_files)
    launch_session(session.pk)
    assert asked == [ContainerStatus.RUNNING] * 2
    assert hanging.now_s <= setups.FILES_WAIT_S + setups.READ_S
    assert place.fresh(session).is_running


def test_files_that_did_not_arrive_are_not_waited_for(place: Place, hanging: HangingRuntime) -> None:
    keep(place)
    session = place.place()
    hanging.refuses = True
    hanging.hanging = frozenset({session.kernels.get().container_name})
    launch_session(session.pk)
    assert place.fresh(session).is_running
    assert hanging.now_s == 0


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_only_a_plain_file_is_read(tmp_path: Path, kind: str) -> None:
    status, elsewhere = tmp_path / "status", tmp_path / "elsewhere"
    elsewhere.write_text("files")
    if kind == "fifo":
        os.mkfifo(status)
    else:
        status.symlink_to(elsewhere)
    line = setups._READ.replace(STATUS, str(status))
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
    monkeypatch.setattr("sessions_app.setups.clock.now", lambda: later)
    setups.note_setups()
    assert setup_of(session).script == "unknown"


def test_a_script_that_failed_before_a_short_command_is_read_from_the_log(
    place: Place, engine: SpeakingRuntime
) -> None:
    keep(place)
    session = place.run()
    setups.note_setup_at_end(session, f"out\n{MARK} exit code 2 after 1 s\n".encode())
    assert (setup_of(session).script, setup_of(session).exit_code) == ("failed", 2)
    setups.note_setup_at_end(session, b"")


@pytest.mark.parametrize(("reason", "script"), [("command_finished", "done"), ("user_requested", "unknown")])
def test_the_end_of_a_session_ends_what_is_known_of_its_script(
    place: Place, engine: SpeakingRuntime, reason: str, script: str
) -> None:
    keep(place)
    session = place.run()
    session.outcome_reason = reason
    setups.note_setup_at_end(session, b"")
    assert setup_of(session).script == script
