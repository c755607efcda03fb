"""Computes when idle limits end a session, when to warn, and whether it may end now. Pure.

A quantity that is not measured never ends a session, and no session ends without a warning at its
last mark.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from accounts.core.utilization import UtilizationRule, is_joint

MARKS_S = (1800, 600, 300)
"""Seconds before an end at which the owner is warned; for a limit shorter than twice the last mark,
at half of the limit.
"""

NEAR = timedelta(seconds=MARKS_S[0])
"""Ends closer than this are shown wherever the session is listed."""

FULL_PERCENT = 100

DEVICE, DEVICE_MEM = "device", "device_mem"
"""Names of utilisation thresholds beside the slots `cpu` and `mem`: all accelerators, their memory.
"""


class Cause(StrEnum):
    """Limit that ends a session."""

    LIFETIME = "lifetime"
    INTERACTION = "interaction"
    USE = "use"
    PREEMPTION = "preemption"  # not a limit: a session of higher priority needs the resources


@dataclass(frozen=True, slots=True)
class Facts:
    """Known facts of a running session.

    `lifetime_ends_at`: None if only its own time limit ends it. `measured_from`: start of gapless
    measurement of user activity; None if not measured now. `low_since`: start of under-utilisation;
    None if not under-utilised, or unknown.
    """

    started_at: datetime
    lifetime_s: int = 0
    lifetime_ends_at: datetime | None = None
    max_idle_s: int | None = None
    interacted_at: datetime | None = None
    measured_from: datetime | None = None
    low_since: datetime | None = None
    use_grace_s: int = 0
    kept_until: datetime | None = None

    @property
    def idle_since(self) -> datetime | None:
        """Start of idleness; None if user activity is not measured."""
        if self.measured_from is None:
            return None
        return max(self.started_at, self.measured_from, self.interacted_at or self.started_at)


@dataclass(frozen=True, slots=True)
class End:
    """Instant at which a limit ends the session if nothing changes. `span_s`: length of the limit."""

    at: datetime
    cause: Cause
    span_s: int

    @property
    def marks_s(self) -> tuple[int, ...]:
        """Seconds before the end at which the owner is warned, longest first."""
        return tuple(mark for mark in MARKS_S if 2 * mark <= self.span_s) or (self.span_s // 2,)

    @property
    def last_mark_s(self) -> int:
        return self.marks_s[-1]


def expected_ends(facts: Facts) -> tuple[End, ...]:
    """Return the end by each limit that is measured, soonest first."""
    found = []
    if facts.lifetime_ends_at is not None:
        found.append(End(facts.lifetime_ends_at, Cause.LIFETIME, facts.lifetime_s))
    if facts.max_idle_s is not None and facts.idle_since is not None:
        found.append(_end_after(facts, Cause.INTERACTION, facts.idle_since, facts.max_idle_s))
    if facts.low_since is not None:
        found.append(_end_after(facts, Cause.USE, facts.low_since, facts.use_grace_s))
    return tuple(sorted(found, key=lambda end: end.at))


def _end_after(facts: Facts, cause: Cause, since: datetime, span_s: int) -> End:
    at = since + timedelta(seconds=span_s)
    return End(max(at, facts.kept_until or at), cause, span_s)


def warning_due(end: End, now: datetime, given: Collection[int]) -> int | None:
    """Return the mark to warn of now, in seconds before the end; None if none is due.

    Marks in `given` were already used. If several are due, only the last one counts.
    """
    due = [mark for mark in end.marks_s if now >= end.at - timedelta(seconds=mark)]
    return due[-1] if due and due[-1] not in given else None


def may_end(end: End, now: datetime, last_told_at: datetime | None) -> bool:
    """Return True if the session may be ended now.

    `last_told_at`: instant of the warning at the last mark of this end; None if it was not sent.
    """
    return last_told_at is not None and now >= earliest_end(end, last_told_at)


def earliest_end(end: End, last_told_at: datetime) -> datetime:
    """Return the earliest end if the warning at the last mark is sent at `last_told_at`."""
    return max(end.at, last_told_at + timedelta(seconds=end.last_mark_s))


@dataclass(frozen=True, slots=True)
class ResourceUtilization:
    """Utilisation of one resource (None: not measured) and its minimum, both in percent."""

    name: str
    percent: int | None
    least: int

    @property
    def is_low(self) -> bool:
        return self.percent is not None and self.percent < self.least


def measured_utilization(
    use: Mapping[str, int | None], thresholds: Mapping[str, int]
) -> tuple[ResourceUtilization, ...]:
    """Return utilisation and minimum of each resource that has a threshold and is allocated."""
    return tuple(
        ResourceUtilization(name, use[name], least) for name, least in thresholds.items() if name in use
    )


def is_low(
    use: Mapping[str, int | None], thresholds: Mapping[str, int], rule: UtilizationRule
) -> bool | None:
    """Return True if utilisation is below the thresholds; None if too little is measured to decide.

    `use` is percent of the allocated amount by name: resources that are not allocated are missing,
    resources that are not measured are None.
    """
    judged = [
        None if (percent := use[name]) is None else percent < threshold
        for name, threshold in thresholds.items()
        if name in use
    ]
    deciding = rule is UtilizationRule.ANY
    if deciding in judged:
        return deciding
    if None in judged or not judged:
        return None
    return not deciding


def max_utilization(use: Mapping[str, int | None], other: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the higher percent by name of two spans; None where either is not measured."""
    found: dict[str, int | None] = {}
    for name, percent in use.items():
        beside = other.get(name)
        found[name] = None if percent is None or beside is None else max(percent, beside)
    return found


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Minimum utilisation by a group or one policy: percent by name.

    `rule`: whether any or all must be missed.
    """

    least: Mapping[str, int]
    rule: UtilizationRule

    def are_missed_by(self, use: Mapping[str, int | None]) -> bool:
        """Return True if `use` is below the thresholds.

        Resources that are not measured miss nothing.
        """
        return bool(is_low(use, self.least, self.rule))

    def apart(self) -> "list[Thresholds]":
        """Return the parts that can be missed separately: each threshold, or all of them jointly."""
        if is_joint(self.rule, self.least):
            return [self]
        return [Thresholds({name: least}, UtilizationRule.ANY) for name, least in self.least.items()]


def is_still_missed(
    use: Mapping[str, int | None],
    wanted: Iterable[Thresholds],
    later: Mapping[str, int | None],
    wanted_later: Iterable[Thresholds],
) -> bool:
    """Return True if a threshold that was missed with `use` is still required and still missed."""
    missed = [part for each in wanted for part in each.apart() if part.are_missed_by(use)]
    return any(part in missed and part.are_missed_by(later) for each in wanted_later for part in each.apart())


def shown_thresholds(use: Mapping[str, int | None], wanted: Sequence[Thresholds]) -> dict[str, int]:
    """Return the thresholds to show beside the utilisation: the largest by name.

    If the session is under-utilised, leaves out thresholds of joint rules that are not missed,
    because reaching one of them would not keep the session.
    """
    missed = [each for each in wanted if each.are_missed_by(use)]
    told: dict[str, int] = {}
    for each in wanted:
        if not missed or each.rule is UtilizationRule.ANY or each in missed:
            told |= {name: max(least, told.get(name, 0)) for name, least in each.least.items()}
    return told


@dataclass(frozen=True, slots=True)
class MinimumUtilization:
    """Minimum utilisation of a session over a window.

    The session is under-utilised if it misses the thresholds of its group or of any one policy;
    each is judged separately. `policies_grace_s`: None if no policy sets a grace.
    """

    group: Thresholds
    policies: tuple[Thresholds, ...]
    window: timedelta
    policies_grace_s: int | None = None

    @property
    def is_wanted(self) -> bool:
        return bool(self.group.least or self.policies)

    def is_missed_by(self, use: Mapping[str, int | None]) -> bool:
        return any(each.are_missed_by(use) for each in (self.group, *self.policies))


def utilization_percent(used: int | None, held: int) -> int | None:
    """Return `used` as percent of `held`, rounded; None if not measured."""
    return None if used is None or held <= 0 else round(FULL_PERCENT * used / held)


@dataclass(frozen=True, slots=True)
class Extension:
    """Extensions that policies still allow: `left` more times, each by `by_s` seconds."""

    left: int
    by_s: int

    @property
    def is_possible(self) -> bool:
        return self.left > 0 and self.by_s > 0


def tightest_extension(*, used: int, most: Collection[int], lengths_s: Collection[int]) -> Extension:
    """Return the extension under the tightest of all levels; levels without a rule are not passed."""
    return Extension(left=max(0, min(most, default=0) - used), by_s=min(lengths_s, default=0))


def extended_end(end: End, now: datetime, by_s: int) -> datetime:
    """Return the new end if extended now: at least `by_s` seconds from now."""
    return max(end.at, now) + timedelta(seconds=by_s)
