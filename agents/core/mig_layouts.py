"""Sizes of MIG partitions by the memory of a device, and which of them fit together. Pure.

A device has seven slices of computing (an A30 four) and eight of memory (four); sizes are those of
NVIDIA's MIG user guide. The driver has the last word, for instance on places of partitions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.i18n import gettext as _

GIB = 2**30
TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class MigProfile:
    """Size of a partition, in slices of computing and of memory."""

    name: str
    compute: int
    memory: int


@dataclass(frozen=True, slots=True)
class MigSizes:
    """Sizes of partitions of one kind of device, and its slices."""

    profiles: Sequence[MigProfile]
    compute: int
    memory: int

    def problem(self, layout: Mapping[str, int]) -> str:
        """Return why these partitions do not fit on one device; "" if they do."""
        known = {profile.name: profile for profile in self.profiles}
        if unknown := [name for name in layout if name not in known]:
            return _("This device has no partition {profile}.").format(profile=unknown[0])
        compute = sum(known[name].compute * count for name, count in layout.items())
        memory = sum(known[name].memory * count for name, count in layout.items())
        if compute > self.compute:
            return _("They need {needed} slices of computing; the device has {most}.").format(
                needed=compute, most=self.compute
            )
        if memory > self.memory:
            return _("They need {needed} slices of memory; the device has {most}.").format(
                needed=memory, most=self.memory
            )
        return ""


def _of_seven(*sizes: int) -> MigSizes:
    """Return the sizes of a device with 1, 2, 3, 4 and 7 slices of these memories in GB."""
    slices = ((1, 1), (2, 2), (3, 4), (4, 4), (7, 8))
    profiles = [
        MigProfile(f"{compute}g.{size}gb", compute, memory)
        for (compute, memory), size in zip(slices, sizes, strict=True)
    ]
    wide = MigProfile(f"1g.{sizes[1]}gb", 1, 2)
    return MigSizes([profiles[0], wide, *profiles[1:]] if sizes[0] > 5 else profiles, 7, 8)


_BY_GIB: Mapping[int, MigSizes] = {
    24: MigSizes(
        (MigProfile("1g.6gb", 1, 1), MigProfile("2g.12gb", 2, 2), MigProfile("4g.24gb", 4, 4)), 4, 4
    ),
    40: _of_seven(5, 10, 20, 20, 40),
    80: _of_seven(10, 20, 40, 40, 80),
    95: _of_seven(12, 24, 47, 47, 94),
    141: _of_seven(18, 35, 71, 71, 141),
    180: _of_seven(23, 45, 90, 90, 180),
}


def mig_sizes(model: str, mem_bytes: int) -> MigSizes | None:
    """Return the sizes of partitions of an NVIDIA device; None if it is not known to have MIG."""
    if not any(name in model for name in ("A30", "A100", "H100", "H200", "H20", "GH200", "B200", "GB200")):
        return None
    gib = mem_bytes / GIB
    nearest = min(_BY_GIB, key=lambda size: abs(size - gib))
    return _BY_GIB[nearest] if abs(nearest - gib) <= TOLERANCE * nearest else None
