"""Cache entries of a resource group are returned until they expire."""

from scheduler.group_cache import GroupCache


def test_what_was_put_is_there_and_taken_by_one():
    kept = GroupCache[str](for_s=60)
    kept.put(1, "one")
    kept.put(2, "two")
    assert (kept.get(1), kept.get(2), kept.get(3)) == ("one", "two", None)
    assert (kept.take(1), kept.take(1), kept.take(3)) == ("one", None, None)


def test_what_is_old_is_not_given_and_goes_when_any_is_put_or_asked_for():
    kept = GroupCache[str](for_s=-1)
    for group_id in (1, 2):
        kept.put(group_id, "old")
        assert len(kept._values) == 1
    assert (kept.get(3), len(kept._values)) == (None, 0)
    kept.put(2, "old")
    assert kept.take(2) is None
