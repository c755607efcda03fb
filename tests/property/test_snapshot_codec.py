"""An encoded snapshot decodes to the same snapshot and so to the same plan."""

import json
import zlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.values.resources import ResourceSlots
from scheduler.engine import Quota, Snapshot, Tenant, simulate
from scheduler.history.snapshot_codec import UnreadableSnapshot, _codec, pack_snapshot, unpack_snapshot
from tests.property.test_engine import ALLOWANCES, NOW, snapshots

EMPTY = Snapshot(1, "lab", 0, (), ())
TENANTS = st.dictionaries(
    st.sampled_from(["a", "a1", "ann"]),
    st.builds(Tenant, weight=st.sampled_from([0.5, 1.0]), allocated=st.just(ResourceSlots({"cpu": 1}))),
)


def as_read(allowance: Quota) -> Quota:
    """Amounts of rows are plain."""
    return replace(allowance, limit=dict(allowance.limit), allocated=dict(allowance.allocated))


@given(snapshots(), ALLOWANCES, TENANTS)
def test_a_picture_gives_back_the_snapshot_and_the_same_plan(
    drawn: Snapshot, allowances: tuple[Quota, ...], tenants: dict[str, Tenant]
) -> None:
    snapshot = replace(drawn, quotas=tuple(map(as_read, allowances)), tenants=tenants)
    again = unpack_snapshot(pack_snapshot(snapshot))
    assert again == snapshot
    assert simulate(again, NOW) == simulate(snapshot, NOW)


def test_what_is_equal_is_one_object_again() -> None:
    @given(snapshots())
    def check(snapshot: Snapshot) -> None:
        pending = unpack_snapshot(pack_snapshot(snapshot)).pending
        assert len({id(each.requirements) for each in pending}) == len(
            {each.requirements for each in pending}
        )

    check()


@dataclass(frozen=True)
class Lacking:
    id: UUID


@dataclass(frozen=True)
class Grown:
    id: UUID
    at: datetime | None = None
    lasts: timedelta = timedelta(1)
    strange: Any = None


def test_fields_that_came_later_have_their_defaults() -> None:
    kept = json.loads(json.dumps(_codec(Lacking).write([Lacking(UUID(int=1))])))
    assert _codec(Grown).read(kept, 1) == [Grown(UUID(int=1))]


def test_unknown_types_are_named() -> None:
    with pytest.raises(TypeError, match="complex"):
        _codec(complex)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"x",
        zlib.compress(b"{}"),
        zlib.compress(b"[]"),
        zlib.compress(b'{"format": 0}'),
        pack_snapshot(EMPTY)[:-9],
    ],
)
def test_what_cannot_be_read_is_refused(damaged: bytes) -> None:
    with pytest.raises(UnreadableSnapshot):
        unpack_snapshot(damaged)
