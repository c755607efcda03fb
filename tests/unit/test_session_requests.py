"""What a request may say."""

import pytest

from common.errors import InvalidInput
from common.slots import ResourceSlots
from sessions_app.requests import parse_request


def raw(**changes: object) -> dict[str, object]:
    return {
        "name": "train",
        "project": "vision",
        "image": "berth/python:1",
        "resources": {"cpu": 1, "mem": "1g"},
        **changes,
    }


def test_smallest_request_is_interactive_with_defaults() -> None:
    request = parse_request(raw())
    assert request.type == "interactive"
    assert request.slots == ResourceSlots({"cpu": 1000, "mem": 2**30})
    assert request.shm_bytes == 64 * 2**20


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("name", {"name": ""}),
        ("name", {"name": "a" * 65}),
        ("name", {"name": "../x"}),
        ("name", {"name": "a\nb"}),
        ("name", {"name": "🚢"}),
        ("project", {"project": ""}),
        ("image", {"image": ""}),
        ("type", {"type": "system"}),
        ("resources.cpu", {"resources": {"cpu": 0, "mem": "1g"}}),
        ("resources.cpu", {"resources": {"cpu": -1, "mem": "1g"}}),
        ("resources.cpu", {"resources": {"cpu": "NaN", "mem": "1g"}}),
        ("resources.cpu", {"resources": {"cpu": "abc", "mem": "1g"}}),
        ("resources.cpu", {"resources": {"cpu": 1e30, "mem": "1g"}}),
        ("resources.mem", {"resources": {"cpu": 1, "mem": "12x"}}),
        ("resources.mem", {"resources": {"cpu": 1}}),
        ("resources.cpu", {"resources": {"cpu": True, "mem": "1g"}}),
        ("resources.cpu", {"resources": {"cpu": [1], "mem": "1g"}}),
        ("resources.shm", {"resources": {"cpu": 1, "mem": "1g", "shm": "2g"}}),
        ("environment", {"environment": {"A B": "x"}}),
        ("environment", {"environment": {"BERTH_URL": "x"}}),
        ("environment", {"environment": {"LD_PRELOAD": "x"}}),
        ("environment", {"environment": {"A": "x\0"}}),
        ("mounts", {"mounts": [{"folder": ""}]}),
        ("mounts", {"mounts": [{"folder": "d", "path": "/etc"}]}),
        ("mounts", {"mounts": [{"folder": "d", "path": "/home/work"}]}),
        ("mounts", {"mounts": [{"folder": "d", "path": "/home/work/../x"}]}),
        ("mounts", {"mounts": [{"folder": "d", "path": "/home/workshop"}]}),
        ("command", {"type": "batch"}),
        ("command", {"command": "ls"}),
        ("timeout_s", {"type": "batch", "command": "ls", "timeout_s": 0}),
        ("image", {"image": "a" * 2000}),
        ("project", {"project": "a\nb"}),
        ("resources", {"resources": {f"kind-{number}": 1 for number in range(200)}}),
        ("environment", {"environment": {f"A{number}": "x" for number in range(101)}}),
        ("environment", {"environment": ["A=b"]}),
        ("environment", {"environment": {"A": "x" * 33 * 1024}}),
        ("mounts", {"mounts": [{"folder": "d", "path": "/home/work/" + "x" * 300}]}),
        ("mounts", {"mounts": [{"folder": "d", "path": "/home/work/a\tb"}]}),
        ("mounts", {"mounts": [{"folder": "d", "path": 7}]}),
    ],
)
def test_wrong_value_is_refused_at_its_field(field: str, changes: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_request(raw(**changes))
    assert field in refusal.value.fields


def test_all_wrong_fields_are_named_at_once() -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_request(raw(name="", image="", resources={}))
    assert set(refusal.value.fields) == {"name", "image", "resources.cpu", "resources.mem"}


def test_mount_below_the_home_directory_is_taken_as_it_is() -> None:
    mounts = [{"folder": "d", "path": "/home/work/in/depth", "readonly": True}]
    [mount] = parse_request(raw(mounts=mounts)).mounts
    assert (mount.path, mount.is_readonly) == ("/home/work/in/depth", True)
