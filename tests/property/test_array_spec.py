"""An array specification names each index once, or is refused with a message."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.core.array_spec import HIGHEST_INDEX, MAX_ELEMENTS, check_array

numbers = st.integers(0, 60)
parts = st.one_of(
    numbers.map(str),
    st.tuples(numbers, numbers).map(lambda pair: f"{pair[0]}-{pair[1]}"),
    st.tuples(numbers, numbers, st.integers(0, 9)).map(lambda three: "{}-{}:{}".format(*three)),
)
specs = st.lists(parts, min_size=1, max_size=5).map(",".join)
limits = st.none() | st.integers(0, 2000)


@given(specs, limits)
def test_a_spec_names_what_counting_by_hand_finds(spec: str, most: int | None) -> None:
    expected: list[int] = []
    for part in spec.split(","):
        ends, _, step = part.partition(":")
        first, _, last = ends.partition("-")
        index, end = int(first), int(last or first)
        by = int(step or 1)
        if index > end or by == 0:
            expected = []
            break
        while index <= end:
            expected.append(index)
            index += by
    is_legal = bool(expected) and len(set(expected)) == len(expected) and most != 0
    text = spec if most is None else f"{spec}%{most}"
    if not is_legal:
        with pytest.raises(ValueError, match=r"\w"):
            check_array(text)
        return
    array = check_array(text)
    assert array is not None
    assert list(array.indices) == expected
    assert array.most_at_once == (None if most is None else min(most, MAX_ELEMENTS))


@given(st.text() | st.text(alphabet="0123456789-,:% ", max_size=40) | st.integers() | st.lists(st.text()))
def test_anything_is_an_array_within_its_bounds_or_refused(value: object) -> None:
    with suppress(ValueError):
        array = check_array(value)
        if array is not None:
            assert 1 <= len(array.indices) <= MAX_ELEMENTS
            assert 0 <= min(array.indices) <= max(array.indices) <= HIGHEST_INDEX
            assert check_array(array.text) == array
