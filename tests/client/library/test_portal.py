"""The library against the production web process, with an engine in memory."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth import Client, InvalidInput, NotFound, NotSignedIn, Refused, Session, SessionEnded, WaitedTooLong
from berth.process import STDERR, STDOUT
from tests import factories
from tests.factories_sessions import Place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(150)]


@pytest.fixture
def client(place: Place, portal_url: str) -> Iterator[Client]:
    with Client(portal_url, factories.make_token(place.owner)) as client:
        yield client


def started(client: Client, place: Place, **changes: object) -> Session:
    return client.sessions.start(
        place.image.reference,
        project=place.project.name,
        resource_group=place.group.name,
        **changes,  # type: ignore[arg-type]
    )


def test_one_key_makes_one_session(client: Client, place: Place) -> None:
    first = started(client, place, name="once", idempotency_key="k1")
    assert started(client, place, name="once", idempotency_key="k1").id == first.id
    with pytest.raises(Refused):
        started(client, place, name="once", idempotency_key="k2")


def test_waiting_reports_the_status_of_the_session(client: Client, place: Place) -> None:
    waiting = started(client, place)
    with pytest.raises(WaitedTooLong, match="pending"):
        waiting.wait_running(0.1)
    waiting.stop()
    with pytest.raises(SessionEnded, match="cancelled"):
        waiting.wait_running(30)
    assert waiting.wait_ended(30).status == "CANCELLED"
    assert [one.to_status for one in waiting.history()] == ["PENDING", "CANCELLED"]

    running = client.sessions.get(str(place.run().pk)).wait_running(30)
    assert running.is_running
    assert running.resources["cpu"] == 1000
    assert running.agents == (place.agent.name,)


def test_a_command_ends_with_its_code_and_both_its_outputs(client: Client, place: Place) -> None:
    session = client.sessions.get(str(place.run().pk))
    assert session.exec("exit", "7").exit_code == 7
    complained = session.exec("complain", "no", "way")
    assert (complained.exit_code, complained.stdout, complained.stderr) == (1, b"", b"no way")
    assert session.exec("nowhere").exit_code == 127
    data = bytes(range(256)) * 20_000  # more than may be under way at once
    echoed = session.exec("echo", input=data)
    assert (echoed.exit_code, echoed.stdout) == (0, data)


def test_a_terminal_is_talked_with(client: Client, place: Place) -> None:
    session = client.sessions.get(str(place.run().pk))
    with session.open_process(tty=True, size=(100, 30)) as process:
        process.write(b"hello\n")
        said = process.output()
        assert next(said) == (STDOUT, b"hello\n")
        process.resize(120, 40)
        process.write(b"exit 3\n")
        assert list(said) == [(STDOUT, b"exit 3\n")]
        assert process.exit_code == 3
        process.write(b"nobody reads this")


def test_a_command_that_is_signalled_ends(client: Client, place: Place) -> None:
    session = client.sessions.get(str(place.run().pk))
    with session.open_process("echo") as process:
        process.signal("TERM")
        assert [stream for stream, _ in process.output() if stream == STDERR] == []


def test_refused_command_states_its_reason(client: Client, place: Place, portal_url: str) -> None:
    running = client.sessions.get(str(place.run().pk))
    waiting = started(client, place)
    with pytest.raises(Refused):
        waiting.exec("echo")
    with running.open_process("echo") as process:
        process._send('{"nonsense": 1}')
        with pytest.raises(InvalidInput, match="resize"):
            list(process.output())

    stranger = Client(portal_url, factories.make_token(factories.make_user()))
    foreign = stranger.sessions._one(_row_of(running))
    with pytest.raises(NotFound):
        foreign.exec("echo")
    nobody = Client(portal_url, "bkaaaaaaaaaaaaaaaa." + "s" * 43)
    with pytest.raises(NotSignedIn):
        nobody.sessions._one(_row_of(running)).exec("echo")


class _row_of:  # noqa: N801  an answer, as far as the library looks at it
    def __init__(self, session: Session) -> None:
        self._row = dict(session.raw)

    def json(self) -> object:
        return self._row


def test_news_come_as_they_happen(client: Client, place: Place) -> None:
    heard: list[str] = []
    is_listening = threading.Event()

    def listen() -> None:
        with Client(client.url, client.transport.token) as other:
            for event in other.events():
                heard.append(event.kind)
                is_listening.set()
                if event.raw.get("id") == wanted.get("id"):
                    return

    wanted: dict[str, str] = {}
    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    for _ in range(60):  # whoever listens hears of what happens from now on: until it does
        wanted["id"] = started(client, place).id
        client.sessions.stop(wanted["id"])
        if is_listening.wait(0.5):
            break
    thread.join(30)
    assert not thread.is_alive()
    assert "session-changed" in heard


def test_files_of_a_session(client: Client, place: Place, tmp_path: Path) -> None:
    files = client.sessions.get(str(place.run().pk)).files
    files.write("notes/grüße %20.txt", b"one")
    assert [(one.name, one.kind, one.size_bytes) for one in files.list("notes").entries] == [
        ("grüße %20.txt", "file", 3)
    ]
    assert b"".join(files.read("/home/work/notes/grüße %20.txt")) == b"one"
    assert files.stat("notes").is_directory
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "a").write_bytes(b"abc")
    files.upload(source, "notes")
    files.download("notes/.", tmp_path / "back")
    assert (tmp_path / "back" / "source" / "sub" / "a").read_bytes() == b"abc"
    assert (tmp_path / "back" / "grüße %20.txt").read_bytes() == b"one"
    with pytest.raises(NotFound):
        files.stat("absent")
