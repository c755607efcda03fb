"""Standard sizes of sessions, and the text form of resource amounts. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from common.i18n import gettext_noop
from common.values.resources import CPU, MEM, MILLI, ResourceSlots, is_memory, parse_slots

KIB = 1024
UNITS = ((KIB**3, "g"), (KIB**2, "m"), (KIB, "k"))
CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Size:
    """Named size; `cpu`, `mem` and the amounts of a preset as text that users type.

    Titles of standard sizes are translated where they are shown; titles of presets are shown as is.
    """

    key: str
    title: str
    cpu: str
    mem: str
    devices: Mapping[str, str] = field(default_factory=dict)
    shm: str = ""
    is_preset: bool = False

    @property
    def slots(self) -> ResourceSlots:
        return parse_slots({CPU: self.cpu, MEM: self.mem, **self.devices}, has_parts=True)


SIZES = (
    Size("small", gettext_noop("Small"), "1", "2g"),
    Size("medium", gettext_noop("Medium"), "2", "4g"),
    Size("large", gettext_noop("Large"), "4", "16g"),
    Size("huge", gettext_noop("Extra large"), "8", "32g"),
)
BY_KEY: Mapping[str, Size] = {size.key: size for size in SIZES}


def size_key(cpu: str, mem: str) -> str:
    """Return the key of the size with these amounts, else "custom"."""
    return next((size.key for size in SIZES if (size.cpu, size.mem) == (cpu, mem)), CUSTOM)


def preset_size(preset_id: int, name: str, slots: Mapping[str, int], shm_bytes: int | None) -> Size:
    typed = {slot: amount_input(slot, amount) for slot, amount in slots.items()}
    return Size(
        key=f"preset-{preset_id}",
        title=name,
        cpu=typed.pop(CPU, "0"),
        mem=typed.pop(MEM, "0"),
        devices=typed,
        shm=amount_input(MEM, shm_bytes) if shm_bytes else "",
        is_preset=True,
    )


def amount_input(name: str, amount: int) -> str:
    """Return base units as text that `parse_slots` reads back: "0.5", "1.5" cores, "512m", "4g"."""
    if not is_memory(name):
        return f"{amount / MILLI:.3f}".rstrip("0").rstrip(".")
    return next(
        (f"{amount // unit}{letter}" for unit, letter in UNITS if amount and amount % unit == 0), str(amount)
    )
