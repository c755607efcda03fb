"""Assignment of CPU cores to kernels."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler.commit.cpu_pinning import CoreUse, choose_cores, format_cores, parse_cores

CORES = st.sets(st.integers(0, 40)).map(sorted)
USES = st.lists(
    st.tuples(st.integers(1, 8000), CORES).map(lambda use: CoreUse(use[0], format_cores(tuple(use[1]))))
)


def test_text_of_cores_is_short() -> None:
    assert format_cores((0, 1, 2, 5, 7, 8)) == "0-2,5,7-8"
    assert format_cores(()) == ""


@given(CORES)
def test_text_of_cores_is_read_back(cores: list[int]) -> None:
    assert list(parse_cores(format_cores(tuple(cores)))) == cores


def test_sessions_of_whole_cores_are_apart_from_each_other() -> None:
    first = choose_cores(2000, 8, [])
    second = choose_cores(3000, 8, [CoreUse(2000, first)])
    assert (first, second) == ("0-1", "2-4")


def test_least_used_core_is_taken() -> None:
    assert choose_cores(500, 3, [CoreUse(1000, "0"), CoreUse(200, "1"), CoreUse(400, "2")]) == "1"
    assert choose_cores(1500, 4, [CoreUse(900, "0"), CoreUse(100, "2")]) == "1,3"


def test_one_that_needs_all_cores_has_all() -> None:
    assert choose_cores(3001, 4, []) == ""
    assert choose_cores(500, 1, []) == ""
    assert choose_cores(500, 0, []) == ""


def test_kernel_without_cores_of_its_own_lies_on_all_of_them() -> None:
    others = [CoreUse(1000, "0"), CoreUse(4000, "")]
    assert choose_cores(1000, 4, others) == "1"


def test_cores_that_the_machine_has_no_more_count_for_nothing() -> None:
    assert choose_cores(1000, 2, [CoreUse(1000, "0-9")]) == "0"


@given(st.integers(1, 9000), st.integers(0, 16), USES)
def test_as_many_cores_as_needed_are_taken_and_no_core_twice(
    cpu_milli: int, core_count: int, others: list[CoreUse]
) -> None:
    cores = parse_cores(choose_cores(cpu_milli, core_count, others))
    assert cores == parse_cores(choose_cores(cpu_milli, core_count, list(others)))
    assert len(set(cores)) == len(cores)
    assert set(cores) <= set(range(core_count))
    assert len(cores) in (0, -(-cpu_milli // 1000))


@given(st.lists(st.integers(1, 8), max_size=12))
def test_no_core_carries_two_whole_cores_while_another_is_idle(wishes: list[int]) -> None:
    taken: list[CoreUse] = []
    for wish in wishes:
        taken.append(CoreUse(wish * 1000, choose_cores(wish * 1000, 64, taken)))
    cores = [core for use in taken for core in parse_cores(use.cpuset)]
    if sum(wishes) <= 64:
        assert len(set(cores)) == len(cores)


def test_where_more_cores_are_promised_than_there_are_each_carries_as_many_sessions_as_the_others() -> None:
    taken: list[CoreUse] = []
    for _ in range(8):  # four cores each on a machine of sixteen, which promises twice as many
        taken.append(CoreUse(4000, choose_cores(4000, 16, taken)))
    carried = Counter(core for use in taken for core in parse_cores(use.cpuset))
    assert carried == dict.fromkeys(range(16), 2)
