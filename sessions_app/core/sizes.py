"""Usual sizes of sessions, and how amounts are typed. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from common.i18n import gettext_noop
from common.values.resources import CPU, MEM, MILLI, ResourceSlots, parse_slots

KIB = 1024
UNITS = ((KIB**3, "g"), (KIB**2, "m"), (KIB, "k"))
CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Size:
    """A size by name; `cpu` and `mem`, and what a preset says besides, as a person types them. Names of usual sizes are translated where
    they are shown, those of presets are what whoever made them wrote."""

    key: str
    title: str
    cpu: str
    mem: str
    devices: Mapping[str, str] = field(default_factory=dict)
    shm: str = ""
    is_preset: bool = False

    @property
    def slots(self) -> ResourceSlots:
        return parse_slots({CPU: self.cpu, MEM: self.mem, **self.devices})


SIZES = (
    Size("small", gettext_noop("Small"), "1", "2g"),
    Size("medium", gettext_noop("Medium"), "2", "4g"),
    Size("large", gettext_noop("Large"), "4", "16g"),
    Size("huge", gettext_noop("Extra large"), "8", "32g"),
)
BY_KEY: Mapping[str, Size] = {size.key: size for size in SIZES}


def size_like(cpu: str, mem: str) -> str:
    """The key of the size with these amounts, else "custom"."""
    return next((size.key for size in SIZES if (size.cpu, size.mem) == (cpu, mem)), CUSTOM)


def size_of_preset(preset_id: int, name: str, slots: Mapping[str, int], shm_bytes: int | None) -> Size:
    typed = {slot: typed_amount(slot, amount) for slot, amount in slots.items()}
    return Size(
        key=f"preset-{preset_id}",
        title=name,
        cpu=typed.pop(CPU, "0"),
        mem=typed.pop(MEM, "0"),
        devices=typed,
        shm=typed_amount(MEM, shm_bytes) if shm_bytes else "",
        is_preset=True,
    )


def typed_amount(name: str, amount: int) -> str:
    """Base units as a person types them and `parse_slots` reads them back: "0.5", "1.5" cores, "512m", "4g"."""
    if name != MEM:
        return f"{amount / MILLI:.3f}".rstrip("0").rstrip(".")
    return next(
        (f"{amount // unit}{letter}" for unit, letter in UNITS if amount and amount % unit == 0), str(amount)
    )
