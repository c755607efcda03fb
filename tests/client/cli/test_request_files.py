"""Request files and copied commands create the same session."""

import json
import os
import shlex
import subprocess
import sys
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from common import clock
from sessions_app.core.request import parse_request
from sessions_app.core.request_export import PLACEHOLDER, request_examples
from sessions_app.models import ComputeSession
from sessions_app.templatetags.sessions import copy_as
from tests import factories
from tests.client.conftest import Command, Done
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place, make_place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(150)]
ODD = """it's "$HOME" & `id`; \\ #1"""


@pytest.fixture
def place(transactional_db: None, tmp_path: Path) -> Place:
    make_storage_host(tmp_path)
    return make_place()


@pytest.fixture
def berth(place: Place, portal_url: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("BERTH_URL", portal_url)
    monkeypatch.setenv("BERTH_TOKEN", factories.make_token(place.owner))
    return command


def asked(place: Place, *, is_batch: bool, **changes: object) -> dict[str, object]:
    """A request with something in each field."""
    make_folder(place.owner, name="data")
    make_folder(place.owner, name="out")
    batch = {
        "type": "batch",
        "command": f"cd data\necho {ODD}",
        "timeout_s": 60,
        "max_retries": 2,
        "requeues": True,
    }
    return place.request(
        priority=-5,
        dependencies=[{"session": place.enqueue(name="load").name, "when": "any"}],
        start_at=(clock.now() + timedelta(days=1)).isoformat(),
        pending_timeout_s=5400,
        designated_agent=place.agent.name,
        may_run_elsewhere=is_batch,
        placement_group="sweep",
        placement_rule="strict_spread" if is_batch else "pack",
        resources={"cpu": 0.5, "mem": "1536m", "shm": "128m"},
        environment={"TOKEN": ODD, "EMPTY": ""},
        mounts=[{"folder": "data"}, {"folder": "out", "path": "/home/work/o x", "readonly": True}],
        **{**(batch if is_batch else {"type": "interactive"}), **changes},
    )


def made_of(name: object) -> dict[str, Any]:
    session = ComputeSession.objects.get(name=name)
    fields = (
        "type",
        "command",
        "timeout_s",
        "priority",
        "start_at",
        "pending_timeout_s",
        "max_retries",
        "requeues",
        "designated_agent",
        "may_run_elsewhere",
        "placement_group",
        "placement_rule",
        "requested_slots",
        "shm_bytes",
        "environment",
        "image_reference",
        "project_id",
        "resource_group_id",
    )
    mounts = [(mount.folder_name, mount.path, mount.is_readonly) for mount in session.mounts.all()]
    others = [(each.after.name, each.when) for each in session.dependencies.all()]
    return {field: getattr(session, field) for field in fields} | {"mounts": mounts, "others": others}


def copied(key: str, request: dict[str, object], portal_url: str) -> str:
    return next(way.text for way in request_examples(parse_request(request), portal_url) if way.key == key)


def words_of(line: str) -> list[str]:
    """What a POSIX shell hands to `berth`."""
    tell = f"berth() {{ {shlex.quote(sys.executable)} -c 'import json, sys; print(json.dumps(sys.argv[1:]))' \"$@\"; }}"
    done = subprocess.run(["/bin/sh", "-c", f"{tell}\n{line}"], capture_output=True, text=True, check=True)
    words: list[str] = json.loads(done.stdout)
    return words


def give(monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    """The variables of the request, where one copies to."""
    for name, value in request["environment"].items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("is_batch", [False, True])
def test_the_copied_command_asks_for_the_same(
    place: Place, berth: Command, portal_url: str, monkeypatch: pytest.MonkeyPatch, is_batch: bool
) -> None:
    request = asked(place, is_batch=is_batch)
    place.enqueue(**{**request, "name": "first"})
    give(monkeypatch, request)

    verb, *words = words_of(copied("cli", request, portal_url))
    done = berth(verb, "--detach", *words)

    assert done.code == 0, done.err
    assert made_of(request["name"]) == made_of("first")


def test_the_copied_call_asks_for_the_same(
    place: Place, portal_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked(place, is_batch=True)
    place.enqueue(**{**request, "name": "first", "environment": {"TOKEN": PLACEHOLDER, "EMPTY": PLACEHOLDER}})
    monkeypatch.setenv("BERTH_TOKEN", factories.make_token(place.owner))

    line = copied("curl", request, portal_url)
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert made_of(request["name"]) == made_of("first")


def test_the_copied_program_asks_for_the_same(
    place: Place, berth: Command, portal_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = asked(place, is_batch=True)
    place.enqueue(**{**request, "name": "first"})
    give(monkeypatch, request)

    program = copied("python", request, portal_url)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert str(ComputeSession.objects.get(name=request["name"]).pk) == done.stdout.strip()
    assert made_of(request["name"]) == made_of("first")


@pytest.mark.parametrize("changes", [{}, {"mounts": [{"folder": "data", "path": "/home/work/a:b"}]}])
def test_the_copied_file_asks_for_the_same(
    place: Place,
    berth: Command,
    portal_url: str,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
    tmp_path: Path,
) -> None:
    request = asked(place, is_batch=True) | changes
    place.enqueue(**{**request, "name": "first"})
    give(monkeypatch, request)
    text = copied("yaml", request, portal_url)
    file = tmp_path / "session.yaml"
    file.write_text(text, encoding="utf-8")

    done: Done = berth("create", "-f", "-", stdin=text) if changes else berth("create", "--file", str(file))

    assert done.code == 0, done.err
    assert done.out.strip() == str(ComputeSession.objects.get(name=request["name"]).pk)
    assert made_of(request["name"]) == made_of("first")


def test_a_file_may_leave_out_what_there_is_only_one_of(place: Place, berth: Command) -> None:
    file = f'{{"image": "{place.image.reference}", "resources": {{"cpu": 1, "mem": "1g"}}}}'

    done = berth("create", "-f", "-", stdin=file)

    assert done.code == 0, done.err
    session = ComputeSession.objects.get()
    assert (session.project, session.name[:5]) == (place.project, "test-")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no object of fields"),
        ("- a", "is no object of fields"),
        ("? [a]\n: b", "line 1, column 3: the name of a field is text"),
        ("a: [", "line 1, column 5"),
        ("a: \x07", "cannot be read as YAML"),
        ("a:\n\t- b", "line 2, column 1: found character"),
        ("!!python/object/apply:os.system [id]", "line 1, column 1: !!python/object/apply:os.system has no"),
        ("a: !!set {b, c}", "line 1, column 4: !!set has no counterpart in JSON"),
        ("a: !!binary aGVsbG8=", "!!binary has no counterpart in JSON"),
        ("a: !!float .nan", "!!float has no counterpart in JSON"),
        ("image: x\nname: a\nimage: y", "line 3, column 1: “image” is there twice"),
        ("image: x\n---\nimage: y", "line 3, column 1: a second document"),
        ("a: &b [*b]", "within itself"),
        ("[" * 3000, "nested too deeply"),
        (
            "a: &a [x]\n"
            + "\n".join(f"{c}: &{c} [{', '.join([f'*{b}'] * 9)}]" for b, c in pairwise("abcdefghi")),
            "more than 20,000",
        ),
        ("<<: 1", "<< takes an object of fields"),
        (b"image: \xff\xfe", "line 1 cannot be read as text: it is not UTF-8"),
        ("x" * (2**20 + 1), "has more than 1 MiB"),
        ('{"image": "x",\n\t"a": NaN}', "NaN is no number of JSON"),
        ('{"image": "x",\n\t"image": "y"}', "“image” is there twice"),
        ("image: x\nenvironment:\n  NOT_SET_HERE:", "there is no such variable here"),
        ("colour: red", "colour"),
        ("1: a", "1: "),
        ("tags: [2026-12-01]", "tags"),
        ("name: 2026-12-01 10:00:00", "name"),
        ("timeout_s: 1:30", "timeout_s"),
        ("start_at: 2026-13-45", "start_at"),
        ("max_retries: .inf", "max_retries"),
    ],
)
def test_a_file_that_is_none_is_refused_in_a_line(
    place: Place, berth: Command, text: str | bytes, words: str
) -> None:
    done = berth("create", "-f", "-", stdin=text)

    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
    assert not ComputeSession.objects.exists()


def test_what_yaml_makes_a_type_of_its_own_stays_the_text_that_was_written(
    place: Place, berth: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERE", "from here")
    tomorrow = datetime.now().astimezone().replace(microsecond=0) + timedelta(days=1)
    text = f"""
        image: {place.image.reference}
        name: 2026-12-01
        type: batch
        command: "true"
        requeues: yes
        start_at: {tomorrow:%Y-%m-%d %H:%M:%S}
        timeout_s: 90
        resources:
          <<: {{cpu: 1, mem: 1g}}
          cpu: .5
        environment:
          DAY: 2026-12-01
          OCTAL: 0777
          SIXTY: 1:30
          SWITCH: yes
          NUMBER: 1.10
          HERE:
        """

    done = berth("create", "-f", "-", stdin="\ufeff" + dedent(text))

    assert done.code == 0, done.err
    session = ComputeSession.objects.get()
    assert session.name == "2026-12-01"
    assert session.requeues
    assert session.start_at == tomorrow
    assert session.requested_slots["cpu"] == 500
    assert session.environment == {
        "DAY": "2026-12-01", "OCTAL": "0777", "SIXTY": "1:30", "SWITCH": "yes", "NUMBER": "1.10", "HERE": "from here",
    }  # fmt: skip


def test_a_file_that_is_not_there_is_told(berth: Command) -> None:
    assert "cannot be read" in berth("create", "-f", "absent.yaml").err


def test_the_page_of_a_session_tells_its_owner_how_and_repeats_no_secret(
    place: Place, browser_of: Any
) -> None:
    folder = make_folder(place.owner, name="data")
    session = place.enqueue(environment={"TOKEN": "geheim"}, mounts=[{"folder": "data"}])
    admin = factories.make_user(admin_of=place.project)

    page, of_admin = (
        browser_of(person).get(f"/sessions/{session.pk}/").content.decode() for person in (place.owner, admin)
    )

    assert "--env TOKEN" in page
    assert "--mount data:/home/work/data" in page
    assert f"--mount {folder.pk}" not in page
    assert "geheim" not in page
    assert "--env TOKEN" not in of_admin


def test_a_session_that_nobody_may_ask_for_today_has_no_text_to_copy(place: Place) -> None:
    session = place.enqueue()
    ComputeSession.objects.filter(pk=session.pk).update(environment={"LD_PRELOAD": "x"})

    assert copy_as(ComputeSession.objects.with_parts().get(pk=session.pk)) == {"examples": ()}
