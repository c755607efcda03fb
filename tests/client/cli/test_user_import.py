"""`berth user import` imports valid rows and reports the others."""

import json
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from accounts.core.roles import Role
from accounts.models import PeopleImport, SignInLink, User
from tests import factories
from tests.client.conftest import Command, Done
from tests.client.wires import client_on, page

STARTED = "2026-01-01T00:00:00Z"
FILE = "email,name\nnew@berth.example,Ada\nno address,\n"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    file = tmp_path / "people.csv"
    file.write_text(FILE)
    return file


@pytest.fixture
def berth(
    transactional_db: None, portal_url: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """The command, signed in as a domain admin."""
    monkeypatch.setenv("BERTH_URL", portal_url)
    monkeypatch.setenv("BERTH_TOKEN", factories.make_token(factories.make_user(role=Role.DOMAIN_ADMIN)))
    return command


def lines(done: Done) -> list[list[str]]:
    return [line.split("\t") for line in done.out.splitlines()]


@pytest.mark.timeout(150)
def test_a_dry_run_changes_nobody_and_the_import_takes_the_good_rows_in(
    berth: Command, people: Path, tmp_path: Path
) -> None:
    dry = berth("user", "import", str(people), "--dry-run")
    assert dry.code == 1
    assert "Nobody was changed. It would be: 1 new, 1 refused." in dry.err
    assert [line[:3] for line in lines(dry)[1:]] == [
        ["2", "new@berth.example", "new"],
        ["3", "no address", "refused"],
    ]
    assert not User.objects.filter(email="new@berth.example").exists()

    kept = tmp_path / "links.csv"
    done = berth("user", "import", str(people), "--links", str(kept))
    assert (done.code, lines(done)[1][:3]) == (1, ["3", "no address", "refused"])
    assert "Done: 1 new, 1 refused." in done.err
    assert User.objects.get(email="new@berth.example").name == "Ada"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "new@berth.example,http" in kept.read_text()
    assert SignInLink.objects.count() == 1
    again = tmp_path / "again.csv"
    number = PeopleImport.objects.get(started_at__isnull=False).pk
    assert berth("user", "import-status", str(number), "--links", str(again)).code == 1
    assert "new@berth.example,http" in again.read_text()

    people.write_text("email,name\nnew@berth.example,Ada\n")
    again = berth("user", "import", str(people), "--json")
    told = json.loads(again.out)
    assert (again.code, told["counts"], told["done"], told["to_do"]) == (0, {"unchanged": 1}, 1, 1)
    assert [row["outcome"] for row in told["rows"]] == ["unchanged"]


def test_what_cannot_be_read_is_said_before_anything_is_sent(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, wire = client_on(page())
    monkeypatch.setattr("berth.cli.context.Client", lambda profile: client)
    file = tmp_path / "latin.csv"
    file.write_bytes("email,name\na@b.example,Zoë\n".encode("latin-1"))
    done = command("user", "import", str(file))
    assert (done.code, wire.requests) == (2, [])
    assert "Line 2 is not UTF-8 (byte 0xeb)." in done.err
    assert command("user", "import", str(tmp_path / "absent.csv")).code == 2
    assert command("user", "import", str(file), "--dry-run", "--links", "x").code == 2


def test_waiting_ends_and_says_how_to_look_again(
    command: Command, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def state(done: int, finished_at: str | None = None) -> httpx.Response:
        told = {"id": 4, "started_at": STARTED, "finished_at": finished_at, "done": done, "to_do": 3}
        return httpx.Response(200, json={**told, "counts": {"new": 3}})

    seconds = iter(range(0, 600, 40))
    monkeypatch.setattr(
        "berth.people_imports.time", SimpleNamespace(sleep=lambda _: None, monotonic=lambda: next(seconds))
    )
    clients = [
        client_on(state(0), state(0), state(1), state(1))[0],
        client_on(state(1), page())[0],
        client_on(state(3, STARTED), page())[0],
    ]
    monkeypatch.setattr("berth.cli.context.Client", lambda profile: clients.pop(0))
    kept = people.parent / "links.csv"
    kept.write_text("email,link\n")
    late = command("user", "import", str(people), "--timeout", "60", "--links", str(kept))
    assert kept.read_text() == "email,link\n"
    assert late.code == 7
    assert "The import 4 goes on: 1 of 3 rows are done after 60 s." in late.err
    assert f"berth user import-status 4 --links {kept}" in " ".join(late.err.split())
    assert "1 of 3 rows are done, and it goes on." in command("user", "import-status", "4").err
    assert "Done: 3 new." in command("user", "import-status", "4").err


def test_a_file_of_links_is_emptied_by_nothing_but_other_links(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "links.csv"
    kept.write_text("email,link\na@b.example,https://berth.example/1\n" * 3)
    told = {
        "id": 4,
        "started_at": STARTED,
        "finished_at": STARTED,
        "done": 1,
        "to_do": 1,
        "counts": {"new": 1},
    }
    link = {"email": "c@b.example", "sign_in_url": "https://berth.example/2"}
    answers = [
        [httpx.Response(404, json={"message": "There is no such import.", "code": "not_found"})],
        [httpx.Response(200, json=told), httpx.Response(403, json={"message": "No.", "code": "x"})],
        [httpx.Response(200, json=told), httpx.Response(200, json=[link]), page()],
    ]
    clients = [client_on(*each)[0] for each in answers]
    monkeypatch.setattr("berth.cli.context.Client", lambda profile: clients.pop(0))
    before = kept.read_text()
    for _ in range(2):
        assert command("user", "import-status", "4", "--links", str(kept)).code != 0
        assert kept.read_text() == before
    assert command("user", "import-status", "4", "--links", str(kept)).code == 0
    assert kept.read_text().splitlines() == ["email,link", "c@b.example,https://berth.example/2"]


def test_how_far_it_is_is_said_as_it_goes(
    command: Command, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def state(done: int, *, ended: bool) -> httpx.Response:
        finished_at = "2026-01-01T00:00:00Z" if ended else None
        told = {"id": 4, "finished_at": finished_at, "counts": {"new": 3}, "done": done, "to_do": 3}
        return httpx.Response(200, json=told)

    client, wire = client_on(
        state(0, ended=False), state(0, ended=False), state(2, ended=False), state(3, ended=True), page()
    )
    monkeypatch.setattr("berth.cli.context.Client", lambda profile: client)
    monkeypatch.setattr("berth.people_imports.time.sleep", lambda seconds: None)
    done = command("user", "import", str(people))
    assert done.err.splitlines() == ["2 of 3 rows", "Done: 3 new."]
    assert wire.body(0) == {"content": FILE, "name": "people.csv", "is_dry_run": True}
    assert wire.paths[1] == "POST /api/v1/user-imports/4/"
