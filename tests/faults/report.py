"""What a run of these tests did and saw, as docs/faults.md tells it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    test: str
    done: str
    seen: str
    looks: int


REPORT: list[Row] = []
