"""Limits of a resource group: amounts that its sessions together, or those of each user, may
allocate, always or at certain hours of the week. Pure but for translated messages; enforcement is
described in docs/subsystems/scheduler.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from common.i18n import gettext as _
from common.values.resources import MAX_AMOUNT, is_slot_name
from common.values.text import check_text
from common.values.time_zones import is_zone, zone_or_utc

MOST_LIMITS, LONGEST_NAME = 10, 64
WEEK = range(1, 8)
"""Days of the week: Monday is 1, as in ISO 8601."""
TEXTS, AMOUNTS, LISTS = (
    ("name", "begins", "ends", "time_zone"),
    ("together", "each"),
    ("session_types", "days"),
)
KEYS = frozenset({*TEXTS, *AMOUNTS, *LISTS})


@dataclass(frozen=True, slots=True)
class Hours:
    """A daily time range on some days of the week, in a time zone.
    If `ends` is not after `begins`, it ends on the next day.
    """

    days: tuple[int, ...]
    begins: time
    ends: time
    time_zone: str

    def until(self, now: datetime) -> datetime | None:
        """Return the UTC time at which the range that contains `now` ends, joined with ranges that
        follow without a gap; None if `now` is in no range.
        """
        zone = zone_or_utc(self.time_zone)
        today, until = now.astimezone(zone).date(), None
        for day in (today + timedelta(days=number) for number in range(-1, len(WEEK) + 1)):
            begins, ends = self._on(day, zone)
            if day.isoweekday() in self.days and begins <= (until or now) < ends:
                until = ends
        return until

    def _on(self, day: date, zone: tzinfo) -> tuple[datetime, datetime]:
        """Return begin and end in UTC. Within one zone, times would be compared by their local
        clock, which repeats an hour in autumn.
        """
        last = day if self.ends > self.begins else day + timedelta(days=1)
        begins, ends = datetime.combine(day, self.begins, zone), datetime.combine(last, self.ends, zone)
        return begins.astimezone(UTC), ends.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class GroupLimit:
    """One limit. Amounts are in base units; slots that are not named are unlimited."""

    name: str
    session_types: tuple[str, ...]  # types that it counts; empty: all
    together: Mapping[str, int]
    each: Mapping[str, int]  # per user
    hours: Hours | None  # None: always in force

    def counts(self, session_type: str) -> bool:
        return not self.session_types or session_type in self.session_types

    def until(self, now: datetime) -> datetime | None:
        return None if self.hours is None else self.hours.until(now)

    def is_in_force(self, now: datetime) -> bool:
        return self.hours is None or self.hours.until(now) is not None


def parse_limits(stored: Sequence[Mapping[str, Any]]) -> tuple[GroupLimit, ...]:
    """Parse limits that `checked` returned."""
    return tuple([_limit(each) for each in stored])


def _limit(stored: Mapping[str, Any]) -> GroupLimit:
    hours = None
    if stored["days"]:
        begins, ends = time.fromisoformat(stored["begins"]), time.fromisoformat(stored["ends"])
        hours = Hours(tuple(stored["days"]), begins, ends, stored["time_zone"])
    return GroupLimit(
        stored["name"], tuple(stored["session_types"]), stored["together"], stored["each"], hours
    )


def validate_limits(raw: object, known_types: Sequence[str]) -> list[dict[str, Any]]:
    """Validate limits and return them in canonical form: JSON with all keys.
    Raises ValueError with a message.
    """
    if not isinstance(raw, list) or not all(isinstance(each, dict) for each in raw):
        raise ValueError(_("Give a list of limits."))
    if len(raw) > MOST_LIMITS:
        raise ValueError(_("A resource group has at most {count} limits.").format(count=MOST_LIMITS))
    limits = [_validate(each, known_types) for each in raw]
    names = [each["name"] for each in limits]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(_("Two limits have the name “{name}”.").format(name=twice))
    return limits


def _validate(raw: Mapping[str, Any], known_types: Sequence[str]) -> dict[str, Any]:
    if unknown := sorted(raw.keys() - KEYS):
        raise ValueError(_("A limit has no “{key}”.").format(key=unknown[0]))
    limit: dict[str, Any] = {key: raw.get(key, "") for key in TEXTS}
    limit |= {key: raw.get(key, {}) for key in AMOUNTS} | {key: raw.get(key, []) for key in LISTS}
    name = limit["name"]
    if not check_text(name, max_length=LONGEST_NAME).strip():
        raise ValueError(_("Give each limit a name."))
    fault = _amounts_fault(limit) or _types_fault(limit, known_types) or _hours_fault(limit)
    if fault:
        raise ValueError(_("“{name}”: {fault}").format(name=name, fault=fault))
    return limit | _canonical(limit)


def _amounts_fault(limit: Mapping[str, Any]) -> str:
    given = [limit[key] for key in AMOUNTS]
    if not all(isinstance(amounts, dict) for amounts in given) or not all(
        is_slot_name(name) and type(most) is int and 0 <= most <= MAX_AMOUNT
        for amounts in given
        for name, most in amounts.items()
    ):
        return _("Give an amount for each slot.")
    return "" if any(given) else _("Give a limit for all sessions together, or a limit per person.")


def _types_fault(limit: Mapping[str, Any], known_types: Sequence[str]) -> str:
    types = limit["session_types"]
    if isinstance(types, list) and all(each in known_types for each in types):
        return ""
    return _("Name types of sessions: {types}.").format(types=_(", ").join(known_types))


def _hours_fault(limit: Mapping[str, Any]) -> str:
    days = limit["days"]
    if not isinstance(days, list) or not all(type(day) is int and day in WEEK for day in days):
        return _("Days are numbers from 1 (Monday) to 7 (Sunday).")
    given = [bool(limit[key]) for key in ("begins", "ends", "time_zone")]
    if not days and not any(given):
        return ""
    if not days or not all(given):
        return _(
            "Name days, when it begins and ends on them, and a time zone; or none of these, and it holds always."
        )
    if not all(_parse_time(limit[key]) for key in ("begins", "ends")):
        return _("Write times as hours and minutes: 08:00.")
    if not isinstance(limit["time_zone"], str) or not is_zone(limit["time_zone"]):
        return _("There is no time zone of this name. Write one such as Europe/Berlin, or UTC.")
    return ""


def _parse_time(text: object) -> str:
    """Return the time as "HH:MM", or "" if the text is not a time."""
    try:
        return f"{datetime.strptime(str(text), '%H:%M'):%H:%M}"  # noqa: DTZ007 - of a day in any zone
    except ValueError:
        return ""


def _canonical(limit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limit in canonical form; all hours of all days become "always"."""
    days, begins, ends = sorted(set(limit["days"])), _parse_time(limit["begins"]), _parse_time(limit["ends"])
    is_always = not days or (len(days) == len(WEEK) and begins == ends)
    return {
        "name": limit["name"].strip(),
        "session_types": sorted(set(limit["session_types"])),
        "days": [] if is_always else days,
        "begins": "" if is_always else begins,
        "ends": "" if is_always else ends,
        "time_zone": "" if is_always else limit["time_zone"],
    }
