"""When a running session is ended by a limit, what it is told before, and whether it may be ended now. Pure.

What is not measured ends nothing, and nothing ends that was not warned SHORTEST mark of its end before.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from accounts.core.utilization import UseRule, is_joint

MARKS_S = (1800, 600, 300)
"""So long before an end people are warned; of a limit that is shorter than twice the last, at half of it."""

NEAR = timedelta(seconds=MARKS_S[0])
"""An end that is no further away is said wherever the session is."""

FULL_PERCENT = 100

DEVICE, DEVICE_MEM = "device", "device_mem"
"""Beside the slots `cpu` and `mem`, what of use has thresholds: all accelerators, and their memory."""


class Cause(StrEnum):
    """Which limit it is."""

    LIFETIME = "lifetime"
    INTERACTION = "interaction"
    USE = "use"
    PREEMPTION = "preemption"  # no limit: one of a higher priority needs the room


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a running session. `lifetime_ends_at`: None where only its own time limit ends it. `measured_from`:
    since when interactions are known without a gap; None: they are not known now. `low_since`: since when it uses too
    little; None: it does not, or that is not known."""

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
        """None: not measured."""
        if self.measured_from is None:
            return None
        return max(self.started_at, self.measured_from, self.interacted_at or self.started_at)


@dataclass(frozen=True, slots=True)
class End:
    """The moment at which a limit ends the session, if nothing changes. `span_s` is how long the limit leaves it."""

    at: datetime
    cause: Cause
    span_s: int

    @property
    def marks_s(self) -> tuple[int, ...]:
        """How long before it people are warned, the longest first."""
        return tuple(mark for mark in MARKS_S if 2 * mark <= self.span_s) or (self.span_s // 2,)

    @property
    def last_mark_s(self) -> int:
        return self.marks_s[-1]


def ends_of(facts: Facts) -> tuple[End, ...]:
    """What is to come by each limit that is measured, the next first."""
    found = []
    if facts.lifetime_ends_at is not None:
        found.append(End(facts.lifetime_ends_at, Cause.LIFETIME, facts.lifetime_s))
    if facts.max_idle_s is not None and facts.idle_since is not None:
        found.append(_end_by(facts, Cause.INTERACTION, facts.idle_since, facts.max_idle_s))
    if facts.low_since is not None:
        found.append(_end_by(facts, Cause.USE, facts.low_since, facts.use_grace_s))
    return tuple(sorted(found, key=lambda end: end.at))


def _end_by(facts: Facts, cause: Cause, since: datetime, span_s: int) -> End:
    at = since + timedelta(seconds=span_s)
    return End(max(at, facts.kept_until or at), cause, span_s)


def warning_due(end: End, now: datetime, given: Collection[int]) -> int | None:
    """The mark to warn of now, in seconds before the end; None if there is none that was not `given` for this end. Whoever
    comes late gives the last one alone."""
    due = [mark for mark in end.marks_s if now >= end.at - timedelta(seconds=mark)]
    return due[-1] if due and due[-1] not in given else None


def may_end(end: End, now: datetime, last_told_at: datetime | None) -> bool:
    """Whether its time is over. `last_told_at`: when the person was told of this end at its last mark; None: never."""
    return last_told_at is not None and now >= earliest_end(end, last_told_at)


def earliest_end(end: End, last_told_at: datetime) -> datetime:
    """When it ends if the last warning was, or is, told at that moment."""
    return max(end.at, last_told_at + timedelta(seconds=end.last_mark_s))


@dataclass(frozen=True, slots=True)
class Judged:
    """One use of what is held, in percent, and the least that is wanted. `percent` is None where it was not measured."""

    name: str
    percent: int | None
    least: int

    @property
    def is_low(self) -> bool:
        return self.percent is not None and self.percent < self.least


def judged_of(use: Mapping[str, int | None], thresholds: Mapping[str, int]) -> tuple[Judged, ...]:
    """Of all that has a threshold and is held, as far as `use` was judged."""
    return tuple(Judged(name, use[name], least) for name, least in thresholds.items() if name in use)


def is_low(use: Mapping[str, int | None], thresholds: Mapping[str, int], rule: UseRule) -> bool | None:
    """Whether what is used, in percent of what is held, is below the thresholds. What the session does not hold is not in
    `use`; None there is not measured. None: what is measured does not decide it."""
    judged = [
        None if (percent := use[name]) is None else percent < threshold
        for name, threshold in thresholds.items()
        if name in use
    ]
    deciding = rule is UseRule.ANY
    if deciding in judged:
        return deciding
    if None in judged or not judged:
        return None
    return not deciding


def higher_of(use: Mapping[str, int | None], other: Mapping[str, int | None]) -> dict[str, int | None]:
    """Of what is used over two spans, in percent by name; not measured where one of both is not."""
    found: dict[str, int | None] = {}
    for name, percent in use.items():
        beside = other.get(name)
        found[name] = None if percent is None or beside is None else max(percent, beside)
    return found


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The least use that a group, or one policy, wants: percent by name, and which of them have to be missed."""

    least: Mapping[str, int]
    rule: UseRule

    def are_missed_by(self, use: Mapping[str, int | None]) -> bool:
        """What is not measured misses nothing."""
        return bool(is_low(use, self.least, self.rule))

    def apart(self) -> "list[Thresholds]":
        """What can be missed by itself: each threshold, or all of them together."""
        if is_joint(self.rule, self.least):
            return [self]
        return [Thresholds({name: least}, UseRule.ANY) for name, least in self.least.items()]


def is_same_lack(
    use: Mapping[str, int | None],
    wanted: Iterable[Thresholds],
    later: Mapping[str, int | None],
    wanted_later: Iterable[Thresholds],
) -> bool:
    """Whether something that was wanted and missed still is both."""
    missed = [part for each in wanted for part in each.apart() if part.are_missed_by(use)]
    return any(part in missed and part.are_missed_by(later) for each in wanted_later for part in each.apart())


def told_beside(use: Mapping[str, int | None], wanted: Sequence[Thresholds]) -> dict[str, int]:
    """The thresholds that people are told with what is used: of each name the largest. Where too little is used, without those of which
    all have to be missed and are not: it would not go on for reaching one of these."""
    missed = [each for each in wanted if each.are_missed_by(use)]
    told: dict[str, int] = {}
    for each in wanted:
        if not missed or each.rule is UseRule.ANY or each in missed:
            told |= {name: max(least, told.get(name, 0)) for name, least in each.least.items()}
    return told


@dataclass(frozen=True, slots=True)
class LeastUse:
    """What a session has to use over a window. It uses too little what its group calls so, or any one of its policies: each is judged by
    itself. `policies_grace_s`: None where they say none."""

    of_group: Thresholds
    of_policies: tuple[Thresholds, ...]
    window: timedelta
    policies_grace_s: int | None = None

    @property
    def is_wanted(self) -> bool:
        return bool(self.of_group.least or self.of_policies)

    def is_missed_by(self, use: Mapping[str, int | None]) -> bool:
        return any(each.are_missed_by(use) for each in (self.of_group, *self.of_policies))


def percent_of(used: int | None, held: int) -> int | None:
    """None: not measured."""
    return None if used is None or held <= 0 else round(FULL_PERCENT * used / held)


@dataclass(frozen=True, slots=True)
class Extension:
    """What policies leave of extending a session: so many times more, each by so many seconds."""

    left: int
    by_s: int

    @property
    def is_possible(self) -> bool:
        return self.left > 0 and self.by_s > 0


def extension_of(*, used: int, most: Collection[int], lengths_s: Collection[int]) -> Extension:
    """The tightest of all levels holds; a level that says nothing is not among them."""
    return Extension(left=max(0, min(most, default=0) - used), by_s=min(lengths_s, default=0))


def put_off(end: End, now: datetime, by_s: int) -> datetime:
    """When it ends that is extended now: no less than `by_s` from now."""
    return max(end.at, now) + timedelta(seconds=by_s)
