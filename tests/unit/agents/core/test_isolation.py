"""Levels of isolation."""

from agents.core.isolation import OFFERED, Isolation, SharingMode


def test_levels_are_ordered_and_what_is_unknown_satisfies_nothing() -> None:
    levels = list(Isolation)
    assert all(level.is_at_least(level) for level in levels)
    assert [level for level in levels if level.is_at_least(Isolation.DRIVER)] == [
        Isolation.WHOLE,
        Isolation.HARDWARE,
        Isolation.DRIVER_MPS,
        Isolation.DRIVER,
    ]
    assert not Isolation.UNKNOWN.is_at_least(Isolation.NONE)


def test_every_level_has_a_sentence_and_every_mode_an_offer() -> None:
    assert len({level.sentence for level in Isolation}) == len(Isolation)
    assert OFFERED.keys() == set(SharingMode)
