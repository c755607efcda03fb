"""Filters of readings, by which a description says how to understand what a machine tells. Pure.

`int`, `num`: a number, also of "12 MiB" or "0x1f". `mib`: MiB as bytes; `bytes`, `si`: "16 GiB" or
"41 mW" in bytes or whole units. `hex`: a number as "0x…", `unhex`: the reverse. `sub`, `mul`, `div`:
arithmetic. `bdf`: a PCI address in one spelling, `kfd_bdf:OTHER`: AMD's location with the domain that
OTHER reads, `bus_slot`: the number in HyperAccel's nodes. `strip`: without spaces and a final colon,
`match:REGEX`: what its group finds, `version`: the first number with dots, `map:TABLE`: the entry of a
table or nothing. `mean`, `sum`, `any`: of a list; `sum` also of all files of a glob. `count`: the number
of lines. `link`: the name that a symbolic link points to. A value that a filter cannot take is unknown.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

MAX_TEXT = 128
MAX_NUMBER = 2**63 - 1
_NUMBER = re.compile(r"\s*([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(?:[A-Za-z%°/]+)?\s*")
_BDF = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})[.:]([0-9a-fA-F])")


def filtered(value: Any, word: str, argument: str) -> Any:
    """Return what the filter makes of a value, None if it cannot take it."""
    try:
        return _PLAIN[word](value) if word in _PLAIN else _WITH_ARGUMENT[word](value, argument)
    except (ValueError, TypeError, OverflowError, ZeroDivisionError, AttributeError):
        return None


def storable(value: Any) -> Any:
    """Return a value that a database and JSON can hold; None for others."""
    if isinstance(value, str):
        text = "".join(character for character in value if character.isprintable()).strip()[: 2 * MAX_TEXT]
        return text or None
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if abs(value) <= MAX_NUMBER else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, list) else None


def number(value: Any) -> int | float:
    """Return a number, also of a text such as "12 MiB" or "0x1f". Raises ValueError."""
    if isinstance(value, str):
        if re.fullmatch(r"\s*0[xX][0-9a-fA-F]{1,16}\s*", value):
            return int(value, 16)
        found = _NUMBER.fullmatch(value)
        if not found:
            raise ValueError(value)
        text = found[1]
        value = int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(value)
    return value


def _bdf(value: str) -> str:
    found = _BDF.fullmatch(value.strip())
    if not found:
        raise ValueError(value)
    domain, bus, slot, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{slot}.{function}".lower()


def _kfd_bdf(location: int, domain: float) -> str:
    bus, slot, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7
    return f"{int(domain):04x}:{bus:02x}:{slot:02x}.{function}"


def _matched(value: Any, pattern: str) -> str | None:
    found = re.search(pattern, str(value))
    return None if found is None else found[1] if found.groups() else found[0]


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SI = {"u": 10**6, "µ": 10**6, "m": 10**3, "": 1, "k": 1e-3}


def _bytes(value: Any) -> int:
    """Return "16 GiB" or "16384MB" as bytes; tools mean powers of 1024 by both."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", str(value))
    if not found:
        raise ValueError(value)
    return int(float(found[1]) * _UNITS[found[2]]) if "." in found[1] else int(found[1]) * _UNITS[found[2]]


def _si(value: Any) -> float:
    """Return "41200000uW" or "41.2 W" in whole units."""
    found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([uµmk]?)[A-Z]?\s*", str(value))
    if not found:
        raise ValueError(value)
    return float(found[1]) / _SI[found[2]]


def _bus_slot(value: str) -> int:
    _, bus, slot = _bdf(value).split(":")
    return int(bus + slot.split(".")[0], 16)


def _mean(values: Any) -> float:
    numbers = [number(value) for value in values]
    return sum(numbers) / len(numbers)


_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "int": lambda value: int(number(value)),
    "num": number,
    "hex": hex,
    "unhex": lambda value: int(value, 16),
    "mib": lambda value: int(number(value) * 2**20),
    "bdf": _bdf,
    "strip": lambda value: str(value).strip().rstrip(":").strip(),
    "mean": _mean,
    "sum": lambda values: sum(number(value) for value in values),
    "bytes": _bytes,
    "si": _si,
    "bus_slot": _bus_slot,
    "any": lambda values: int(any(values)) if isinstance(values, list) else None,
    "link": lambda value: value.rstrip("/").rsplit("/", 1)[-1],
    "count": lambda value: len([line for line in value.splitlines() if line.strip()]),
    "version": lambda value: _matched(value, r"\d+(?:\.\d+)+"),
}
_WITH_ARGUMENT: Mapping[str, Callable[[Any, str], Any]] = {
    "match": _matched,
    "sub": lambda value, argument: value - int(argument),
    "mul": lambda value, argument: value * number(argument),
    "div": lambda value, argument: value / number(argument),
    "kfd_bdf": lambda value, argument: _kfd_bdf(int(value), number(argument)),
}
FILTERS: Mapping[str, bool] = {
    **dict.fromkeys(_PLAIN, False),
    **dict.fromkeys(_WITH_ARGUMENT, True),
    "map": True,
}
"""Names of filters, and whether they take an argument ("sub:128"). The reader itself knows `map`."""
