"""Protection of a session from others on its accelerator, and the ways to share one. Pure."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from types import MappingProxyType

from common.i18n import gettext as _


class Isolation(StrEnum):
    """Protection of a session on its device, from the strongest to the weakest.

    HARDWARE is a partition (MIG). DRIVER and DRIVER_MPS: the driver limits memory. SERVER: MPS limits
    each process. COOPERATIVE: a library that programs can step around. UNKNOWN: not read back yet.
    """

    WHOLE = "whole"
    HARDWARE = "hardware"
    DRIVER_MPS = "driver+mps"
    DRIVER = "driver"
    SERVER = "server"
    COOPERATIVE = "cooperative"
    NONE = "none"
    UNKNOWN = ""

    def is_at_least(self, least: "Isolation") -> bool:
        """Return True if this protects as well as `least`; UNKNOWN demands nothing and offers nothing."""
        return self.rank >= least.rank

    @property
    def rank(self) -> int:
        """Return a number that grows with the protection; 0: UNKNOWN."""
        return len(Isolation) - 1 - list(Isolation).index(self)

    @property
    def sentence(self) -> str:
        """Say what is limited, for people."""
        return {
            Isolation.WHOLE: _("The whole device: nobody else is on it."),
            Isolation.HARDWARE: _("A fixed slice in hardware: memory, computing and faults are separate."),
            Isolation.DRIVER_MPS: _(
                "The driver limits memory, and MPS computing; a crash of a neighbour may end your work, and neighbours "
                "can read your shared memory (/dev/shm)."
            ),
            Isolation.DRIVER: _("The driver limits memory; computing is in turns."),
            Isolation.SERVER: _(
                "MPS limits memory and computing of each process, not of the session; a crash of a neighbour may end "
                "your work, and neighbours can read your shared memory (/dev/shm)."
            ),
            Isolation.COOPERATIVE: _(
                "A library limits memory and computing, and programs can step around it."
            ),
            Isolation.NONE: _("Nothing is limited: neighbours on the device share its memory and time."),
            Isolation.UNKNOWN: _("Not verified on the running container."),
        }[self]


class SharingMode(StrEnum):
    """Way to share a device among sessions that asked for a part of it."""

    FORBIDDEN = "forbidden"
    SLICE = "slice"
    MEMORY = "memory"
    MPS = "mps"
    HOOK = "hook"


OFFERED: Mapping[SharingMode, Isolation] = MappingProxyType(
    {
        SharingMode.FORBIDDEN: Isolation.UNKNOWN,
        SharingMode.SLICE: Isolation.NONE,
        SharingMode.MEMORY: Isolation.DRIVER,
        SharingMode.MPS: Isolation.SERVER,
        SharingMode.HOOK: Isolation.COOPERATIVE,
    }
)
"""Isolation of a part of a device by mode, if its mechanism works on the machine."""


def usable_mode(mode: SharingMode, modes: Collection[SharingMode]) -> SharingMode:
    """Return the mode that a rule with `mode` means for devices whose vendor has `modes`: its own, else time
    slices, else none.
    """
    if mode is SharingMode.FORBIDDEN or mode in modes:
        return mode
    return SharingMode.SLICE if SharingMode.SLICE in modes else SharingMode.FORBIDDEN


LIMITS_MEMORY_FROM = 13040
"""Version of CUDA that the first driver with limits of memory (R615) can run."""


def offered_isolation(mode: SharingMode, api_version: int) -> Isolation:
    """Return the isolation of a part where the driver can run this version of CUDA; 0: unknown."""
    if mode is SharingMode.MEMORY and 0 < api_version < LIMITS_MEMORY_FROM:
        return Isolation.NONE
    return OFFERED[mode]
