"""How many machines have an image: they live on a floor above and tell it here."""

from collections.abc import Callable, Collection, Mapping

from common.actors import Actor

# {reference: number of machines that the actor sees}; what no machine has may be left out.
Counter = Callable[[Actor, Collection[str]], Mapping[str, int]]

_counters: list[Counter] = []


def register(counter: Counter) -> None:
    """Called from AppConfig.ready; registering twice is once."""
    if counter not in _counters:
        _counters.append(counter)


def holder_counts(actor: Actor, references: Collection[str]) -> Mapping[str, int]:
    """{reference: on how many machines it is}. As many queries as there are counters: one."""
    counts: dict[str, int] = dict.fromkeys(references, 0)
    for counter in _counters:
        counts |= counter(actor, references)
    return counts
