"""Fields of a session request."""

import pytest

from common.errors import InvalidInput
from common.values.resources import ResourceSlots
from common.values.text import shown
from sessions_app.core.request import check_role_resources, parse_request
from sessions_app.core.request_fields import InvalidParts
from tests.bad_input import UNMET, UNREADABLE, Bad


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


@pytest.mark.parametrize("bad", UNREADABLE, ids=str)
def test_a_wrong_value_is_refused_at_its_field(bad: Bad) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_request(raw(**bad.changes))
    said = refusal.value.fields.get(shown(bad.field), [])
    assert any(bad.says in sentence for sentence in said), refusal.value.fields
    assert refusal.value.code == bad.code


@pytest.mark.parametrize("bad", UNMET, ids=str)
def test_what_only_the_rooms_can_refuse_is_read(bad: Bad) -> None:
    parse_request(raw(**bad.changes))


@pytest.mark.parametrize("raw_request", [None, [], "name=train", 7])
def test_what_is_no_object_is_refused(raw_request: object) -> None:
    with pytest.raises(InvalidInput, match="object of fields"):
        parse_request(raw_request)


@pytest.mark.parametrize("wrong", [{"type": "batch"}, {"type": "batch", "command": " \n"}])
def test_a_batch_session_needs_a_command(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_request(raw(**wrong))
    assert refusal.value.fields["command"] == ["A batch session needs a command to run."]


def test_all_wrong_fields_are_named_at_once() -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_request(raw(name="", image="", resources={}))
    assert set(refusal.value.fields) == {"name", "image", "resources.cpu", "resources.mem"}


def test_mount_below_the_home_directory_is_taken_as_it_is() -> None:
    mounts = [{"folder": "d", "path": "/home/work/in/depth", "readonly": True}]
    [mount] = parse_request(raw(mounts=mounts)).mounts
    assert (mount.path, mount.readonly) == ("/home/work/in/depth", True)


@pytest.mark.parametrize(
    ("sent", "read"), [(None, 0), ("", 0), ("-5", -5), (" 100 ", 100), ("−7", -7), (-100, -100)]
)
def test_a_priority_may_be_text_as_forms_send_it(sent: object, read: int) -> None:
    assert parse_request(raw(priority=sent)).priority == read


def test_a_time_limit_may_be_text_as_forms_send_it() -> None:
    assert parse_request(raw(type="batch", command="ls", timeout_s="60")).timeout_s == 60


def test_a_request_of_unknown_fields_has_a_short_answer() -> None:
    unknown = {f"field-{number}": 1 for number in range(100)}
    with pytest.raises(InvalidInput) as refused:
        parse_request(raw(mounts=[{"folder": "data", **unknown}] * 32, **unknown))
    assert len(refused.value.fields) <= 10 * (1 + 32)


def test_requests_share_no_default() -> None:
    first, second = parse_request(raw()), parse_request(raw())
    assert first.environment == second.environment == {}
    assert first.environment is not second.environment


def test_a_dependency_without_a_session_says_so() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_request(raw(dependencies=[{"sesion": "a"}]))
    assert refused.value.fields["dependencies.0.session"] == ["Say which session, by name or id."]


def test_roles_ask_for_parts_of_devices_as_shares_only() -> None:
    assert check_role_resources(None) is None
    assert check_role_resources({"cpu": 1, "mem": "1g"}) is not None
    with pytest.raises(InvalidParts):
        check_role_resources({"cuda.mem": "1g"})
