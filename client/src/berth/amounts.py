"""Amounts for people: the portal counts in millicores, bytes and thousandths of a device."""

from collections.abc import Mapping
from datetime import UTC, datetime

MILLI = 1000
UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
SPANS = ((86400, "d"), (3600, "h"), (60, "min"))


def format_bytes(amount: int) -> str:
    """ "512 MiB", "1.5 GiB"."""
    for factor, unit in UNITS:
        if abs(amount) >= factor:
            return f"{amount / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{amount} B"


def format_amount(name: str, amount: int) -> str:
    """One slot without its name: "0.5", "4 GiB"."""
    if name in ("mem", "shm"):
        return format_bytes(amount)
    return f"{amount / MILLI:.3f}".rstrip("0").rstrip(".")


def format_slots(slots: Mapping[str, int]) -> str:
    """ "cpu 2, mem 4 GiB"; CPU and memory first."""
    order = sorted(slots, key=lambda name: (name != "cpu", name != "mem", name))
    return ", ".join(f"{name} {format_amount(name, slots[name])}" for name in order)


def format_limit(name: str, amount: int) -> str:
    """An amount of the limit `name`: of "slots.mem" "4 GiB", of "lifetime_s" "3 h", of "min_cpu_percent" "30 %", of "sessions" "10"."""
    kind, _dot, slot = name.partition(".")
    if slot:
        return format_amount(slot, amount)
    if kind.endswith("_bytes"):
        return format_bytes(amount)
    if kind.endswith("_percent"):
        return f"{amount} %"
    return format_span(amount) if kind.endswith("_s") else str(amount)


def format_span(seconds: float) -> str:
    """A length of time, roughly: "40 s", "12 min", "3 d"."""
    for length, unit in SPANS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def format_instant(instant: datetime | None) -> str:
    """In the time of this computer, to the second; "" if never."""
    return instant.astimezone().isoformat(" ", "seconds") if instant else ""


def format_age(instant: datetime | None, now: datetime | None = None) -> str:
    """How long ago; "" if never."""
    if instant is None:
        return ""
    return format_span(((now or datetime.now(UTC)) - instant).total_seconds())


def format_left(instant: datetime, now: datetime | None = None) -> str:
    """How long until then."""
    return format_span((instant - (now or datetime.now(UTC))).total_seconds())
