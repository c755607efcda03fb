"""Any JSON is a valid session request or a refusal that names its fields."""

import json
from contextlib import suppress
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidInput
from common.values.resources import CPU, MEM, MILLI, ResourceSlots
from common.values.text import shown
from sessions_app.core.container_spec import HOME
from sessions_app.core.device_request import DevicePart
from sessions_app.core.request import SessionRequest, parse_request

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["1e999999", "１", "-0"])
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
amounts = scalars | st.sampled_from(["1g", "64m", "0.5", 1, 2, "1e999999", "9p"])
paths = st.text(alphabet="/.a\0\n", max_size=12).map(lambda end: f"{HOME}/{end}") | anything
plausible = {
    "name": st.sampled_from(["train", "a" * 64, ""]) | anything,
    "project": st.just("demo") | anything,
    "image": st.just("berth/python:1") | anything,
    "type": st.sampled_from(["interactive", "batch"]) | anything,
    "resource_group": st.just("") | anything,
    "resources": st.fixed_dictionaries(
        {"cpu": amounts, "mem": amounts},
        optional={
            "shm": amounts,
            "cuda": amounts,
            "cuda.mem": amounts,
            "cuda.cores": amounts,
            "mig": st.just("1g.10gb") | st.dictionaries(st.just("2g.20gb"), amounts) | anything,
        },
    )
    | anything,
    "environment": st.dictionaries(st.sampled_from(["A", "B_1", "LD_X", "é"]) | st.text(), st.text())
    | anything,
    "mounts": st.lists(
        st.fixed_dictionaries({"folder": st.just("data") | anything}, optional={"path": paths})
    )
    | anything,
    "command": st.just("ls") | anything,
    "timeout_s": st.integers() | anything,
    "max_retries": st.integers(-2, 12) | anything,
    "requeues": st.booleans() | anything,
    "personal_files": st.booleans() | anything,
    "array": st.sampled_from(["1-3", "1-100%10", "7", "0-9:2", "1-9999999"]) | anything,
    "callback_url": st.sampled_from(["", "https://a.example/x?y", "http://[::1]:80"]) | anything,
    "designated_agent": st.just("gpu-07") | anything,
    "may_run_elsewhere": st.booleans() | anything,
    "device_model": st.just("NVIDIA H100") | anything,
    "device_mem": st.just("40g") | anything,
    "device_api": st.just("12.4") | anything,
    "linked_devices": st.booleans() | anything,
    "isolation": st.just("driver") | anything,
    "placement_group": st.just("web") | anything,
    "placement_rule": st.just("strict_pack") | anything,
    "dependencies": st.lists(
        st.just("a") | st.fixed_dictionaries({"session": anything}, optional={"when": anything})
    )
    | anything,
    "priority": st.integers(-200, 200) | anything,
    "start_at": st.datetimes(timezones=st.timezones()).map(str) | anything,
    "pending_timeout_s": st.integers() | anything,
    "cluster_size": st.integers(-1, 102) | anything,
    "cluster_mode": st.sampled_from(["one_machine", "anywhere", "spread"]) | anything,
    "roles": st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from(["worker", "ps", "main", "w1"]) | anything},
            optional={
                "count": st.integers(-1, 120) | anything,
                "resources": st.fixed_dictionaries({"cpu": amounts, "mem": amounts, "cuda.mem": amounts})
                | anything,
                "command": st.just("ls") | anything,
                "failure_policy": st.just("tolerate") | anything,
            },
        )
    )
    | anything,
}


@given(st.fixed_dictionaries({}, optional=plausible) | anything)
def test_any_json_is_a_legal_request_or_refused_at_known_fields(raw: object) -> None:
    request, refused_fields = read(raw)
    if request is None:
        unknown = {shown(name) for name in raw} if isinstance(raw, dict) else set()
        assert {name.partition(".")[0] for name in refused_fields if name not in unknown} <= set(plausible)
        json.dumps(refused_fields, ensure_ascii=False).encode()
    else:
        assert_legal(request)


@given(amounts, amounts, amounts)
def test_legal_amounts_are_positive_integers_and_others_are_refused(
    cpu: object, mem: object, shm: object
) -> None:
    resources = {"cpu": cpu, "mem": mem, "shm": shm}
    with suppress(InvalidInput):
        assert_legal(parse_request({"name": "a", "project": "p", "image": "i", "resources": resources}))


def test_each_field_has_plausible_values() -> None:
    assert set(plausible) == set(SessionRequest.fields())


def assert_legal(request: SessionRequest) -> None:
    assert request.name
    assert request.project
    assert request.image
    assert isinstance(request.slots, ResourceSlots)
    assert all(isinstance(amount, int) and 0 < amount < 2**48 for amount in request.slots.values())
    assert request.slots[CPU] >= 10
    assert 0 <= request.shm_bytes <= request.slots[MEM]
    assert bool(request.command) == (request.type == "batch")
    assert all(isinstance(value, str) for value in request.environment.values())
    assert request.timeout_s is None or request.timeout_s > 0
    assert -100 <= request.priority <= 100
    assert 0 <= request.max_retries <= 10
    assert request.type == "batch" or not (request.max_retries or request.requeues)
    assert request.start_at is None or request.start_at.utcoffset() == timedelta(0)
    assert request.pending_timeout_s is None or request.pending_timeout_s > 0
    assert request.designated_agent or not request.may_run_elsewhere
    for mount in request.mounts:
        assert mount.path == "" or (mount.path.startswith(f"{HOME}/") and "/../" not in f"{mount.path}/")


def read(raw: object) -> tuple[SessionRequest | None, dict[str, list[str]]]:
    """What was read, else what was refused."""
    try:
        return parse_request(raw), {}
    except InvalidInput as refusal:
        return None, refusal.fields


@given(st.integers(1, 200 * 2**30), st.data())
def test_parts_of_a_device_get_their_memory_and_are_never_oversold(
    device_mem: int, data: st.DataObject
) -> None:
    asked = data.draw(st.lists(st.tuples(st.integers(0, device_mem), st.integers(0, 100)), max_size=6))
    parts = [DevicePart("cuda", *each) for each in asked if any(each)]
    shares = [part.share(device_mem) for part in parts]

    for part, share in zip(parts, shares, strict=True):
        assert 0 < share <= MILLI
        assert share * device_mem >= part.mem_bytes * MILLI
        assert share * 100 >= part.cores * MILLI
    if sum(shares) <= MILLI:
        assert sum(part.mem_bytes for part in parts) <= device_mem
        assert sum(part.cores for part in parts) <= 100
