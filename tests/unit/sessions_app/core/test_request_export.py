"""A request exported for shells and languages reads back as the same request."""

import ast
import json
import subprocess
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from common.values.resources import CPU, MEM, ResourceSlots
from sessions_app.core.array_spec import check_array
from sessions_app.core.device_request import DevicePart
from sessions_app.core.queue_options import DependencyRequest, When
from sessions_app.core.request import FolderRequest, Resources, SessionRequest
from sessions_app.core.request_export import (
    LANGUAGES,
    PLACEHOLDER,
    as_body,
    as_command,
    as_curl,
    as_python,
    as_yaml,
    request_examples,
)
from sessions_app.core.sizes import SIZES, amount_input, size_key
from sessions_app.web.environment_text import format_variables, parse_variables

PORTAL = "http://berth.example:8080"
SECRET = "geheim-$(id)"
HOSTILE = (
    "$(reboot)", "`reboot`", "a;b", "a'b", 'a"b', "a\\b", "-rf", "--", "a b", "a\nb\n  c", "é🚢", "'''", '"""', "EOF", "END",
    "#x", "a: b", "- a", "true", "null", "1", "~", "{a}", "%s", "\x7f\x85", "a\u2028b", "!!python/object:os.system x", "\ufeff",
)  # fmt: skip


def request(**changes: Any) -> SessionRequest:
    usual: dict[str, Any] = {
        "name": "train",
        "project": "demo",
        "image": "berth/python:1",
        "type": "interactive",
        "resources": Resources(ResourceSlots({CPU: 1000, MEM: 2**31})),
    }
    return SessionRequest(**{**usual, **changes})


FULL = request(
    type="batch",
    command="make all\nmake more",
    timeout_s=60,
    priority=-5,
    start_at=datetime(2027, 1, 31, 8, tzinfo=UTC),
    pending_timeout_s=5400,
    max_retries=3,
    requeues=True,
    callback_url="https://ci.example/run?a=1&b='2'",
    designated_agent="gpu-07",
    may_run_elsewhere=True,
    device_model="NVIDIA H100 80GB",
    device_mem=40 * 2**30,
    device_api="12.4",
    linked_devices=True,
    isolation="driver",
    placement_group="sweep",
    placement_rule="strict_spread",
    dependencies=(DependencyRequest("load"), DependencyRequest("test", When.ANY)),
    resources=Resources(ResourceSlots({CPU: 1500, MEM: 3 * 2**29 + 1, "cuda": 500}), shm_bytes=2**27),
    resource_group="big",
    environment={"TOKEN": SECRET, "EMPTY": ""},
    mounts=(FolderRequest("data"), FolderRequest("out", "/home/work/x", True), FolderRequest("in", "", True)),
)


def shell(line: str) -> list[list[str]]:
    """The words, and what came on standard input, of each program that a POSIX shell starts for this text."""
    tell = "python3 -c 'import json, sys; print(json.dumps([*sys.argv[1:], sys.stdin.read()]))'"
    programs = "".join(f'{name}() {{ {tell} "$@"; }}\n' for name in ("berth", "curl"))
    done = subprocess.run(
        ["/bin/sh", "-c", programs + line], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "BERTH_TOKEN": "bk.x", "PYTHONIOENCODING": "utf-8", "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_usual_request_is_short() -> None:
    assert as_command(request()) == (
        "berth start berth/python:1 \\\n  --project demo \\\n  --name train \\\n  --cpu 1 \\\n  --mem 2g"
    )
    assert as_yaml(request()) == (
        "name: train\nproject: demo\nimage: berth/python:1\ntype: interactive\nresources:\n  cpu: 1\n  mem: 2g\n"
    )
    assert as_python(request()) == (
        "from berth import Client\n\n"
        "with Client() as client:\n"
        "    session = client.sessions.start(\n"
        '        "berth/python:1",\n'
        '        project="demo",\n'
        '        name="train",\n'
        "        cpu=1,\n"
        '        mem="2g",\n'
        "    )\n"
        "    print(session.id)\n"
    )


def test_export_contains_the_whole_request() -> None:
    ((*words, _),) = shell(as_command(FULL))
    assert words == [
        "run", "berth/python:1", "--project", "demo", "--name", "train", "--cpu", "1.5", "--mem", "1610612737",
        "--resource", "cuda=0.5", "--shm", "128m", "--group", "big", "--env", "TOKEN", "--env", "EMPTY", "--mount", "data",
        "--mount", "out:/home/work/x:ro", "--mount", "in:ro", "--time-limit", "60", "--priority=-5",
        "--start-at", "2027-01-31T08:00:00+00:00", "--pending-timeout", "5400",
        "--after", "load:success", "--after", "test:any", "--retries", "3", "--requeue",
        "--callback", "https://ci.example/run?a=1&b='2'", "--prefer-agent", "gpu-07", "--gpu-model", "NVIDIA H100 80GB",
        "--gpu-min-mem", "40g", "--gpu-min-version", "12.4", "--gpu-linked", "--isolation", "driver",
        "--placement-group", "sweep", "--spread", "--strict", "--", "make all\nmake more",
    ]  # fmt: skip
    assert yaml.safe_load(as_yaml(FULL)) == as_body(FULL, None)
    assert "command: |-\n  make all\n  make more\n" in as_yaml(FULL)
    assert as_body(FULL, None)["resources"] == {"cpu": 1.5, "mem": 1610612737, "cuda": 0.5, "shm": "128m"}


def test_that_ones_files_stay_out_is_told() -> None:
    bare = request(personal_files=False)

    assert as_command(bare).endswith("--no-personal-files")
    assert yaml.safe_load(as_yaml(bare))["personal_files"] is False
    assert as_body(bare, None)["personal_files"] is False
    assert "personal_files=False" in as_python(bare)


def test_a_part_of_a_device_is_told_as_it_was_asked_for() -> None:
    slots = ResourceSlots({CPU: 1000, MEM: 2**31, "cuda": 500})
    asked = request(resources=Resources(slots, part=DevicePart("cuda", 20 * 2**30, 30)))

    assert "--resource cuda.cores=30" in as_command(asked)
    assert as_body(asked, None)["resources"] == {"cpu": 1, "mem": "2g", "cuda.cores": 30, "cuda.mem": "20g"}
    assert yaml.safe_load(as_yaml(asked)) == as_body(asked, None)
    assert call_in(as_python(asked))["resources"] == {"cuda.cores": 30, "cuda.mem": "20g"}


def test_an_array_is_told() -> None:
    asked = request(type="batch", command="true", array=check_array("1-9%3"))

    assert "--array 1-9%3" in as_command(asked)
    assert yaml.safe_load(as_yaml(asked))["array"] == as_body(asked, None)["array"] == "1-9%3"
    assert call_in(as_python(asked))["array"] == "1-9%3"


def test_export_contains_no_values_of_variables() -> None:
    examples = request_examples(FULL, PORTAL)

    assert [example.key for example in examples] == [key for key, _ in LANGUAGES]
    assert all(SECRET not in example.text + example.note for example in examples)
    assert all("TOKEN" in example.text for example in examples)
    assert PLACEHOLDER in as_curl(FULL, PORTAL)
    assert "variables" not in "".join(way.note for way in request_examples(request(), PORTAL)).lower()


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_stays_text(text: str) -> None:
    asked = request(
        name=text, project=text, image=text.lstrip("-") or "x", resource_group=text, type="batch", command=text,
        mounts=(FolderRequest(text.replace(":", ""), f"/home/work/{text.replace(':', '')}"),),
    )  # fmt: skip
    body = as_body(asked, None)

    ((_, image, *words, _),) = shell(as_command(asked))
    ((*sent, _),) = shell(as_curl(asked, PORTAL))

    assert image == asked.image
    assert words[-2:] == ["--", text]
    assert (
        (f"--group={text}" in words) if text.startswith("-") else (words[words.index("--group") + 1] == text)
    )
    assert json.loads(sent[-1]) == body
    assert sent[1] == f"{PORTAL}/api/v1/sessions/"
    assert "Authorization: Bearer bk.x" in sent
    assert yaml.safe_load(as_yaml(asked)) == body
    assert call_in(as_python(asked))["command"] == text


def call_in(program: str) -> dict[str, Any]:
    """The literal arguments of the call in a program."""
    calls = [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Call)]
    (call,) = (node for node in calls if isinstance(node.func, ast.Attribute) and node.func.attr == "start")
    return {
        word.arg: ast.literal_eval(word.value)
        for word in call.keywords
        if word.arg and word.arg not in ("mounts", "environment")
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.text(max_size=5))
def test_any_text_is_read_back_from_yaml(text: str, other: str) -> None:
    asked = request(command=text.strip(), name=text, environment={"A": other})

    assert yaml.safe_load(as_yaml(asked)) == as_body(asked, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"mounts": (FolderRequest("data", "/home/work/a:b"),)},
        {"timeout_s": 60},
        {"mounts": (FolderRequest("d", "/home/work/a:b"),), "command": "a\nEND\nEND", "type": "batch"},
    ],
)
def test_what_no_option_can_say_is_a_file(changes: dict[str, Any]) -> None:
    asked = request(**changes)

    ((*words, file),) = shell(as_command(asked))

    assert words == ["create", "-f", "-"]
    assert yaml.safe_load(file) == as_body(asked, None)


@pytest.mark.parametrize("amount", [0, 1, 10, 999, 1000, 1500, 2**20, 3 * 2**29, 2**30, 5 * 2**30 + 1])
def test_amounts_are_typed_as_they_are_read(amount: int) -> None:
    from common.values.resources import parse_bytes, parse_milli

    assert parse_bytes(amount_input(MEM, amount)) == amount
    assert parse_milli(CPU, amount_input(CPU, amount)) == amount


def test_sizes_are_known_by_their_amounts() -> None:
    assert SIZES[0].slots == ResourceSlots({CPU: 1000, MEM: 2**31})
    assert [size_key(size.cpu, size.mem) for size in SIZES] == [size.key for size in SIZES]
    assert size_key("3", "2g") == "custom"


@given(st.dictionaries(st.from_regex("[A-Z]{1,5}", fullmatch=True), st.text(max_size=12), max_size=4))
def test_variables_are_read_back_from_their_lines(variables: dict[str, str]) -> None:
    assert parse_variables(format_variables(variables)) == variables
    assert parse_variables(format_variables(variables).replace("\n", "\r\n")) == variables


def test_lines_of_variables_are_plain_text() -> None:
    assert parse_variables("A=1\r\n\r\n B=x=y\nC=\nD=$'\nE=\"q\"\nF=$'a\\nb'") == {
        "A": "1", "B": "x=y", "C": "", "D": "$'", "E": '"q"', "F": "a\nb",
    }  # fmt: skip
    with pytest.raises(ValueError, match="has no “=”"):
        parse_variables("A=1\nB")


def test_export_contains_placement_options() -> None:
    asked = request(placement_group="web", placement_rule="pack")
    assert "--placement-group web" in as_command(asked)
    assert as_command(asked).endswith("--pack")
    assert call_in(as_python(asked))["placement_rule"] == as_body(asked, None)["placement_rule"] == "pack"
    strict = request(type="batch", command="true", array=check_array("1-9"), placement_rule="strict_spread")
    assert "--spread --strict" in as_command(strict)
    assert "placement_group" not in as_body(strict, None)
