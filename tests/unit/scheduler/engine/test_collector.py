"""A pass runs without garbage collection and restores its state."""

import gc
from collections.abc import Iterator

import pytest

from scheduler.engine.planner import undisturbed


@pytest.fixture(autouse=True)
def _collector_as_before() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_nothing_is_collected_meanwhile_and_all_is_as_before_afterwards() -> None:
    gc.enable()
    with undisturbed():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_disabled_collector_stays_disabled() -> None:
    gc.disable()
    with undisturbed():
        pass
    assert not gc.isenabled()


def test_it_goes_on_after_a_failure() -> None:
    gc.enable()
    with pytest.raises(ZeroDivisionError), undisturbed():
        _ = 1 / 0
    assert gc.isenabled()
