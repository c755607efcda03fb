"""Format amounts and times for people. The portal counts in millicores, bytes and milli-devices."""

from collections.abc import Mapping
from datetime import UTC, datetime

MILLI = 1000
UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
SPANS = ((86400, "d"), (3600, "h"), (60, "min"))


def format_bytes(amount: int) -> str:
    """Format bytes as in "512 MiB" or "1.5 GiB"."""
    for factor, unit in UNITS:
        if abs(amount) >= factor:
            return f"{amount / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{amount} B"


def parse_bytes(text: str) -> int:
    """Return the bytes of "500g", "1.5t" or "1024". Raises ValueError."""
    unit = text[-1:].lower()
    factor = next((factor for factor, name in UNITS if name[0].lower() == unit), 1)
    return int(float(text[:-1] if factor > 1 else text) * factor)


def format_amount(name: str, amount: int) -> str:
    """Format the amount of one slot without the slot's name, as in "0.5" or "4 GiB"."""
    if name in ("mem", "shm") or name.endswith(".mem"):
        return format_bytes(amount)
    return f"{amount / MILLI:.3f}".rstrip("0").rstrip(".")


def format_slots(slots: Mapping[str, int]) -> str:
    """Format slots as in "cpu 2, mem 4 GiB"; CPU and memory come first."""
    order = sorted(slots, key=lambda name: (name != "cpu", name != "mem", name))
    return ", ".join(f"{name} {format_amount(name, slots[name])}" for name in order)


def format_limit(name: str, amount: int) -> str:
    """Format the amount of the limit `name`.

    Examples: "slots.mem" gives "4 GiB", "lifetime_s" "3 h", "min_cpu_percent" "30 %", "sessions"
    "10".
    """
    kind, _dot, slot = name.partition(".")
    if slot:
        return format_amount(slot, amount)
    if kind.endswith("_bytes"):
        return format_bytes(amount)
    if kind.endswith("_percent"):
        return f"{amount} %"
    return format_span(amount) if kind.endswith("_s") else str(amount)


def format_span(seconds: float) -> str:
    """Format a length of time, rounded: "40 s", "12 min" or "3 d"."""
    for length, unit in SPANS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def format_instant(instant: datetime | None) -> str:
    """Format an instant in the local time zone, to the second; "" for None."""
    return instant.astimezone().isoformat(" ", "seconds") if instant else ""


def format_age(instant: datetime | None, now: datetime | None = None) -> str:
    """Format the time since `instant`; "" for None."""
    if instant is None:
        return ""
    return format_span(((now or datetime.now(UTC)) - instant).total_seconds())


def format_left(instant: datetime, now: datetime | None = None) -> str:
    """Format the time from now until `instant`."""
    return format_span((instant - (now or datetime.now(UTC))).total_seconds())
