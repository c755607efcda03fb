"""Rules of uploads: what happens if the name is taken. Pure."""

from collections.abc import Iterator
from enum import StrEnum

from vfolders.core.paths import numbered_name

MAX_COPIES = 1000


class IfExists(StrEnum):
    """What an upload does if its name is taken at its end."""

    REPLACE = "replace"
    KEEP_BOTH = "keep_both"
    REFUSE = "refuse"


def free_names(name: str) -> Iterator[str]:
    """Yield the name, then “name (2)”, “name (3)” …"""
    yield name
    yield from (numbered_name(name, number) for number in range(2, MAX_COPIES))
