"""Steps of use at which owners are warned."""

from vfolders.core.quota_steps import following_step


def test_steps_are_told_upwards_at_once_and_left_only_clearly_below() -> None:
    told, steps = 0, []
    for used in (79, 80, 81, 78, 80, 74, 80, 96, 94, 96, 90, 96, 100, 120, 96, 94, 100, 0):
        told = following_step(told, used, 100)
        steps.append(told)
    assert steps == [0, 80, 80, 80, 80, 0, 80, 95, 95, 95, 80, 95, 100, 100, 100, 95, 100, 0]


def test_a_limit_of_nothing_is_full_once_something_is_used() -> None:
    assert (following_step(0, 0, 0), following_step(0, 1, 0), following_step(100, 0, 0)) == (0, 100, 0)
