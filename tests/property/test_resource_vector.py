"""Laws of resource vectors: the maximal ones represent all others."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.accelerators import whole_slot
from scheduler.engine.index.resource_vector import FIELD_BITS, MAX_COMPARED, Layout

LAYOUT = Layout(("cpu", "mem", "cuda", "tpu"), shared=("cuda",))
amounts = st.integers(0, 4)
vectors = st.fixed_dictionaries({"cpu": amounts, "mem": amounts, "tpu": amounts, "cuda": amounts, whole_slot("cuda"): amounts}).map(
    LAYOUT.pack_room
)  # fmt: skip
many = st.lists(vectors, max_size=40)


fields = st.lists(
    st.sampled_from([0, 1, 2**61, 2**63 - 2, 2**63 - 1]) | st.integers(0, 2**63 - 1), min_size=6, max_size=6
)


@given(fields, fields)
def test_a_request_fits_where_no_field_of_it_is_larger(request: list[int], room: list[int]) -> None:
    packed_request, packed_room = (
        sum(amount << FIELD_BITS * number for number, amount in enumerate(each)) for each in (request, room)
    )
    assert LAYOUT.fits(packed_request, packed_room) == all(a <= b for a, b in zip(request, room, strict=True))


@given(many, vectors)
def test_what_fits_in_any_fits_in_one_of_the_outermost(rooms: list[int], request: int) -> None:
    outermost = LAYOUT.outermost(rooms)
    assert set(outermost) <= set(rooms)
    assert any(LAYOUT.fits(request, room) for room in outermost) == any(
        LAYOUT.fits(request, room) for room in rooms
    )


@given(many, vectors)
def test_none_is_nearer_than_the_nearest_of_the_outermost(rooms: list[int], request: int) -> None:
    found = LAYOUT.nearest(request, LAYOUT.outermost(rooms))
    if not rooms:
        assert found == 0
        return
    assert LAYOUT.nearness(request, found) == max(LAYOUT.nearness(request, room) for room in rooms)


@given(many)
def test_no_outermost_one_holds_another_and_no_order_changes_them(rooms: list[int]) -> None:
    outermost = LAYOUT.outermost(rooms)
    assert outermost == sorted(outermost) == LAYOUT.outermost(rooms[::-1])
    held = [(a, b) for a in outermost for b in outermost if a != b and LAYOUT.fits(a, b)]
    assert len(outermost) > MAX_COMPARED or not held


def test_of_many_that_none_holds_each_stays() -> None:
    rooms = [
        LAYOUT.pack_room({"cpu": share, "mem": 3 * MAX_COMPARED - share}) for share in range(3 * MAX_COMPARED)
    ]
    assert sorted(rooms) == LAYOUT.outermost(rooms)
