"""The command against the production web process: real REST, database and Redis, an engine in memory."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import connections

from accounts.core.roles import Role
from berth.profiles import profile_path
from sessions_app.core.states import Status
from sessions_app.launch.launcher import launch_session
from sessions_app.launch.terminator import end_session
from sessions_app.models import ComputeSession
from sessions_app.reconciler.loop import reconcile_sessions
from tests import factories
from tests.client.conftest import Command, Done
from tests.factories_limits import limit
from tests.factories_sessions import Place
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(150)]


def rows(done: Done) -> list[list[str]]:
    """The table of a command, without its head."""
    assert done.code == 0, done.err
    return [line.split("\t") for line in done.out.splitlines()[1:]]


def test_signing_in_keeps_the_token_and_signing_out_forgets_it(
    place: Place, portal_url: str, command: Command
) -> None:
    token = factories.make_token(place.owner)
    done = command("login", portal_url, stdin=f"{token}\n")
    assert (done.code, done.out) == (0, "")
    assert place.owner.email in done.err
    assert token not in done.err
    assert token in profile_path().read_text()

    assert json.loads(command("whoami", "--json").out)["email"] == place.owner.email
    assert rows(command("profile", "ls")) == [["default", portal_url, "current"]]

    assert command("logout", "--revoke").code == 0
    assert token not in profile_path().read_text()
    assert command("login", portal_url, stdin=token).code == 6  # it was revoked
    done = command("whoami")
    assert done.code == 6
    assert done.err.splitlines()[0] == "berth: Nobody is signed in on this computer."
    assert done.err.splitlines()[1].startswith("hint: Sign in: berth login URL")


def test_limits_are_told_and_a_refusal_names_them(place: Place, berth: Command) -> None:
    limit(place.project, max_sessions=0, max_slots={"mem": 4 * 2**30}, max_lifetime_s=7200)
    told = rows(berth("limits", "--project", place.project.name))
    assert [row[:4] for row in told] == [
        ["slots.mem", "4 GiB", "0 B", "4 GiB"],
        ["sessions", "0", "0", "0"],
        ["lifetime_s", "2 h", "0 s", "2 h"],
        ["keypairs", "50", "1", "49"],
    ]
    assert told[1][4] == f"project {place.project.name}"
    assert json.loads(berth("limits", "--json").out)["project"] == ""

    done = berth("start", place.image.reference, "--project", place.project.name)
    assert done.code == 4
    assert "has reached its limit of live sessions (0 of 0)" in done.err


@pytest.mark.parametrize("token", ["", "x", "bkaaaaaaaaaaaaaaaa." + "s" * 43, "a b", "\x1b[2J", "grüße"])
def test_a_token_that_is_none_is_not_kept(token: str, portal_url: str, command: Command) -> None:
    done = command("login", portal_url, stdin=f"{token}\n")
    assert done.code in (2, 6)
    assert done.out == ""
    assert not profile_path().exists()


def test_a_portal_that_is_not_there_is_told(command: Command, no_pauses: list[float]) -> None:
    done = command("login", "http://localhost:1", stdin="bk.x\n")
    assert done.code == 5
    assert "does not answer" in done.err


def test_what_a_portal_has_is_listed(berth: Command, place: Place) -> None:
    assert [row[1] for row in rows(berth("image", "ls"))] == [place.image.reference]
    assert [row[0] for row in rows(berth("project", "ls"))] == [place.project.name]
    assert [row[0] for row in rows(berth("group", "ls"))] == [place.group.name]
    agents = berth("agent", "ls")
    assert agents.code == 0
    for words in (
        ("image", "ls"),
        ("project", "ls"),
        ("group", "ls"),
        ("agent", "ls"),
        ("folder", "ls"),
        ("ls",),
    ):
        assert isinstance(json.loads(berth(*words, "--json").out), list)


def test_a_session_is_started_listed_shown_and_stopped(berth: Command, place: Place) -> None:
    done = berth(
        "start", str(place.image.pk), "--name", "one", "--cpu", "0.5", "--mem", "512m", "--shm", "128m",
        "--env", "A=b c", "--group", place.group.name, "--detach",
    )  # fmt: skip
    assert done.code == 0, done.err
    session = ComputeSession.objects.get(pk=done.out.strip())
    assert session.requested_slots == {"cpu": 500, "mem": 512 * 2**20}
    assert session.shm_bytes == 128 * 2**20
    assert session.environment == {"A": "b c"}
    assert session.project == place.project

    assert [row[1:3] for row in rows(berth("ls"))] == [["one", "PENDING"]]
    assert berth("ls", "-q").out.strip() == str(session.pk)
    for text in ("one", str(session.pk), str(session.pk)[:8], str(session.pk).upper()):
        assert json.loads(berth("show", text, "--json").out)["id"] == str(session.pk)
    assert "name\tone" in berth("show", "one").out

    stopped = berth("stop", "one", "--json")
    assert json.loads(stopped.out)[0]["status"] == "CANCELLED"
    assert rows(berth("ls")) == []
    assert [row[2] for row in rows(berth("ls", "--all"))] == ["CANCELLED"]
    assert [row[2] for row in rows(berth("ls", "--status", "cancelled"))] == ["CANCELLED"]
    assert json.loads(berth("show", "one", "--json").out)["status"] == "CANCELLED"


def test_several_live_sessions_of_one_name_are_told_apart(
    berth: Command, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = place.enqueue(name="twin")
    second = place.enqueue(name="twin", by=factories.make_user(member_of=place.project))
    everybody = factories.make_user(domain=place.project.domain, role=Role.SUPERADMIN)
    monkeypatch.setenv("BERTH_TOKEN", factories.make_token(everybody))
    done = berth("stop", "twin")
    assert done.code == 2
    assert str(first.pk)[:8] in done.err
    assert str(second.pk)[:8] in done.err
    assert berth("stop", str(first.pk)).code == 0
    assert berth("stop", "twin").code == 0


def test_the_log_and_the_apps_of_a_session(
    berth: Command, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("berth.cli.sessions.webbrowser.open", opened.append)
    session = place.run(name="one")
    place.runtime._containers[session.kernels.get().container_name].output = b"\x1b[32mhello\x1b[0m\n"

    assert berth("logs", "one").out == "\x1b[32mhello\x1b[0m\n"
    address = berth("open", "one").out.strip()
    assert address.startswith(("http://jupyter-", "http://localhost"))
    assert opened == []
    assert json.loads(berth("open", "one", "board", "--browser", "--json").out)["name"] == "board"
    assert len(opened) == 1
    assert berth("open", "one", "absent").code == 3


def test_an_ended_session_opens_no_app(berth: Command, place: Place) -> None:
    place.end(place.run(name="one"))
    assert berth("open", "one").code == 4


@pytest.fixture
def workers(place: Place) -> Iterator[Callable[[Callable[[ComputeSession], None]], None]]:
    """`workers(finish)` does in a thread what workers would: launches what is asked for, then calls `finish(session)`."""
    threads: list[threading.Thread] = []
    faults: list[BaseException] = []

    def carry(finish: Callable[[ComputeSession], None]) -> None:
        try:
            session = wait_until(
                lambda: ComputeSession.objects.filter(status=Status.PENDING).first(), deadline_s=30
            )
            assert session is not None
            from scheduler.tick import run_tick

            run_tick(place.group.pk)
            launch_session(session.pk)
            finish(session)
        except BaseException as fault:
            faults.append(fault)
            raise
        finally:
            connections.close_all()

    def start(finish: Callable[[ComputeSession], None]) -> None:
        threads.append(threading.Thread(target=carry, args=(finish,)))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join(30)
    assert faults == []


def end_with(place: Place, code: int, output: bytes) -> Callable[[ComputeSession], None]:
    def finish(session: ComputeSession) -> None:
        place.runtime.finish(session.kernels.get().container_name, exit_code=code, output=output)
        reconcile_sessions()
        end_session(session.pk)

    return finish


Workers = Callable[[Callable[[ComputeSession], None]], None]


@pytest.mark.parametrize("code", [0, 3, 255])
def test_a_batch_run_prints_what_it_writes_and_ends_with_its_code(
    code: int, berth: Command, place: Place, workers: Workers
) -> None:
    workers(end_with(place, code, b"6 * 7 = 42\n"))
    done = berth(
        "run",
        place.image.reference,
        "--group",
        place.group.name,
        "-t",
        "5m",
        "--",
        "python",
        "-c",
        "print(1)",
    )
    assert (done.code, done.out) == (code, "6 * 7 = 42\n"), done.err
    session = ComputeSession.objects.get()
    assert (session.type, session.command, session.timeout_s) == ("batch", "python -c 'print(1)'", 300)
    assert "pending" in done.err


def test_a_quiet_run_says_nothing_but_what_the_command_writes(
    berth: Command, place: Place, workers: Workers
) -> None:
    workers(end_with(place, 1, b"no\n"))
    done = berth("run", "-q", place.image.reference, "--group", place.group.name, "--", "false")
    assert (done.code, done.out, done.err) == (1, "no\n", "")


def test_a_run_that_was_stopped_elsewhere_says_so(berth: Command, place: Place, workers: Workers) -> None:
    def stop(session: ComputeSession) -> None:
        place.end(session)

    workers(stop)
    done = berth("run", place.image.reference, "--group", place.group.name, "--", "sleep", "1d")
    assert done.code != 0
    assert "terminated" in done.err


def test_folders_and_their_files(berth: Command, place: Place, tmp_path: Path) -> None:
    from vfolders.services import ensure_default_host

    ensure_default_host()
    source = tmp_path / "source"
    (source / "sub dir").mkdir(parents=True)
    (source / "sub dir" / "grüße %20.txt").write_text("hello")
    (source / "big").write_bytes(bytes(range(256)) * 10_000)

    assert berth("folder", "create", "data").code == 0
    assert [row[0] for row in rows(berth("folder", "ls"))] == ["data"]
    assert berth("cp", str(source), "data:").code == 0
    assert berth("folder", "upload", "data", str(source / "big"), "--to", "copy").code == 0
    assert [row[0] for row in rows(berth("folder", "files", "data"))] == ["source/", "copy"]
    assert berth("folder", "cat", "data", "source/sub dir/grüße %20.txt").out == "hello"

    back = tmp_path / "back"
    back.mkdir()
    assert berth("cp", "folder:data:source", str(back)).code == 0
    assert (back / "source" / "big").read_bytes() == (source / "big").read_bytes()
    assert (back / "source" / "sub dir" / "grüße %20.txt").read_text() == "hello"
    assert berth("folder", "download", "data", "copy", "--to", str(back / "one")).code == 0
    assert (back / "one").read_bytes() == (source / "big").read_bytes()

    assert berth("folder", "mkdir", "data", "deep/er").code == 0
    assert berth("folder", "rm", "data", "deep").code == 2  # nobody can be asked
    assert berth("folder", "rm", "data", "deep", "--yes").code == 0
    assert "3 files" in berth("folder", "show", "data").out
    assert json.loads(berth("folder", "usage", "data", "--json").out)["file_count"] == 3
    assert berth("folder", "quota", "data", "1.5g").code == 0
    assert berth("folder", "quota", "data", "much").code == 2
    assert json.loads(berth("storage", "show", "--json").out)["folder_count"] == 1
    assert berth("storage", "users").code == 0
    assert berth("cp", "data:absent", str(back)).code == 3
    assert berth("folder", "delete", "data").code == 0
    assert berth("folder", "show", "data").code == 3


def test_any_call_of_the_api_can_be_made(berth: Command, place: Place) -> None:
    assert json.loads(berth("api", "get", "me/").out)["email"] == place.owner.email
    assert json.loads(berth("api", "GET", "/api/v1/projects/", "--param", "page_size=1").out)["count"] == 1
    made = berth("api", "POST", "keypairs/", "--data", '{"name": "more"}')
    number = json.loads(made.out)["id"]
    assert berth("api", "DELETE", f"keypairs/{number}/").out == ""
    assert berth("api", "GET", "nowhere/").code in (1, 3)
    assert berth("api", "GET", "../../admin/").code == 2


def test_completion_offers_names_of_the_portal(
    berth: Command, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from berth.cli import complete

    place.enqueue(name="train-1")

    class Context:
        def find_root(self) -> "Context":
            return self

        params: dict[str, str] = {}  # noqa: RUF012

    context = Context()
    assert [name for name, _ in complete.sessions(context, "tr")] == ["train-1"]  # type: ignore[arg-type]
    assert complete.sessions(context, "other") == []  # type: ignore[arg-type]
    assert [name for name, _ in complete.images(context, "")] == [place.image.reference]  # type: ignore[arg-type]
    assert [name for name, _ in complete.projects(context, "")] == [place.project.name]  # type: ignore[arg-type]
    assert [name for name, _ in complete.places(context, "")] == ["train-1:"]  # type: ignore[arg-type]
    place.enqueue(name="sweep", type="batch", command="true", array="1-2")
    to_come_after = complete.sessions_and_arrays(context, "sweep")  # type: ignore[arg-type]
    assert {name for name, _ in to_come_after} == {"sweep", "sweep-1", "sweep-2"}
    assert to_come_after[0] == ("sweep", "array of 2")
    monkeypatch.setenv("BERTH_TOKEN", "wrong")
    assert complete.sessions(context, "") == []  # type: ignore[arg-type]
