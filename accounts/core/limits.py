"""Limit arithmetic: the limits of several scopes, their use, and the demand of a request. Pure.

A limit has a name: `sessions`, `folders`, or with a slot, `slots.cpu`. Amounts are in base units. A
name that a scope lacks is unlimited in that scope.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from accounts.core.utilization import UtilizationRule, is_joint
from common.i18n import gettext as _
from common.i18n import gettext_noop
from common.values.durations import format_duration
from common.values.resources import CPU, MEM, format_amount, format_bytes, slot_title

HIGHEST_PRIORITY = 100  # of a session; the lowest is its negative


class Level(StrEnum):
    """Levels that have limits, from the widest to the narrowest."""

    DOMAIN = "domain"
    PROJECT = "project"
    USER = "user"
    KEYPAIR = "keypair"


class StorageLevel(StrEnum):
    """Levels that limit bytes of folders without a policy: by numbers of the host or the folder."""

    HOST = "host"
    HOST_PROJECT = "host_project"  # one project's folders on one host
    HOST_USER = "host_user"
    FOLDER = "folder"


class Limit(StrEnum):
    """Limits of a policy. SLOTS and PENDING_SLOTS have one name per slot."""

    SLOTS = "slots"  # allocated to sessions that have an agent
    SESSIONS = "sessions"  # live, pending ones included
    PENDING_SESSIONS = "pending_sessions"
    PENDING_SLOTS = "pending_slots"  # requested by pending sessions
    CONTAINERS = "containers"  # of one session
    LIFETIME = "lifetime_s"  # of one session, from RUNNING on
    IDLE_TIMEOUT = "idle_timeout_s"  # of one session
    LEAST_CPU = "min_cpu_percent"  # of a session's allocation, over a window
    LEAST_MEM = "min_mem_percent"
    LEAST_DEVICE = "min_device_percent"
    LEAST_DEVICE_MEM = "min_device_mem_percent"
    USE_WINDOW = "use_window_s"
    USE_GRACE = "use_grace_s"  # from the first low utilisation to the session's end
    EXTENSIONS = "extensions"  # of one session
    EXTENSION = "extension_s"  # length of one extension
    PRIORITY = "priority"  # of one session
    FOLDERS = "folders"
    FOLDER_BYTES = "folder_bytes"  # as last measured; what sessions write is not checked
    KEYPAIRS = "keypairs"
    REQUESTS = "requests"  # of one token, per minute
    BROWSERS = "browsers"  # concurrent logins of one user

    def of_slot(self, slot: str) -> str:
        return f"{self.value}.{slot}"


# Limits of a single request, token or user: nothing is summed.
CEILINGS = frozenset(
    {
        Limit.CONTAINERS, Limit.LIFETIME, Limit.IDLE_TIMEOUT, Limit.USE_WINDOW, Limit.USE_GRACE, Limit.EXTENSIONS, Limit.EXTENSION,
        Limit.PRIORITY, Limit.REQUESTS, Limit.BROWSERS,
    }
)  # fmt: skip
# Minimum utilisation of a session: never requested, and the largest value is the tightest.
FLOORS = frozenset({Limit.LEAST_CPU, Limit.LEAST_MEM, Limit.LEAST_DEVICE, Limit.LEAST_DEVICE_MEM})
DURATIONS = frozenset(
    {Limit.LIFETIME, Limit.IDLE_TIMEOUT, Limit.USE_WINDOW, Limit.USE_GRACE, Limit.EXTENSION}
)
# Limits that exist at some levels only: folders have no keypair; tokens and logins belong to a
# user; requests of a token belong to no project.
LIMIT_LEVELS = {
    Limit.FOLDERS: frozenset({Level.DOMAIN, Level.PROJECT, Level.USER}),
    Limit.FOLDER_BYTES: frozenset({Level.DOMAIN, Level.PROJECT, Level.USER}),
    Limit.KEYPAIRS: frozenset({Level.USER}),
    Limit.REQUESTS: frozenset({Level.DOMAIN, Level.USER, Level.KEYPAIR}),
    Limit.BROWSERS: frozenset({Level.DOMAIN, Level.USER}),
}
TITLES = {
    Limit.SLOTS: gettext_noop("{slot} in sessions"),
    Limit.SESSIONS: gettext_noop("Live sessions"),
    Limit.PENDING_SESSIONS: gettext_noop("Waiting sessions"),
    Limit.PENDING_SLOTS: gettext_noop("{slot} requested by waiting sessions"),
    Limit.CONTAINERS: gettext_noop("Containers of a session"),
    Limit.LIFETIME: gettext_noop("Lifetime of a session"),
    Limit.IDLE_TIMEOUT: gettext_noop("Idle timeout of a session"),
    Limit.LEAST_CPU: gettext_noop("Minimum CPU utilization"),
    Limit.LEAST_MEM: gettext_noop("Minimum memory utilization"),
    Limit.LEAST_DEVICE: gettext_noop("Minimum accelerator utilization"),
    Limit.LEAST_DEVICE_MEM: gettext_noop("Minimum accelerator memory utilization"),
    Limit.USE_WINDOW: gettext_noop("Utilization window"),
    Limit.USE_GRACE: gettext_noop("Grace time for low utilization"),
    Limit.EXTENSIONS: gettext_noop("Extensions of a session"),
    Limit.EXTENSION: gettext_noop("Length of an extension"),
    Limit.PRIORITY: gettext_noop("Priority of a session"),
    Limit.FOLDERS: gettext_noop("Folders"),
    Limit.FOLDER_BYTES: gettext_noop("Size of folders"),
    Limit.KEYPAIRS: gettext_noop("API tokens"),
    Limit.REQUESTS: gettext_noop("Requests of one API token in a minute"),
    Limit.BROWSERS: gettext_noop("Concurrent logins"),
}
SCOPE_TITLES: Mapping[Level | StorageLevel, str] = {
    Level.DOMAIN: gettext_noop("The domain “{name}”"),
    Level.PROJECT: gettext_noop("The project “{name}”"),
    Level.USER: gettext_noop("Your account"),
    Level.KEYPAIR: gettext_noop("The token “{name}”"),
    StorageLevel.HOST: gettext_noop("The storage host “{name}”"),
    StorageLevel.HOST_PROJECT: gettext_noop("The project’s part of the storage host “{name}”"),
    StorageLevel.HOST_USER: gettext_noop("Your part of the storage host “{name}”"),
    StorageLevel.FOLDER: gettext_noop("The folder “{name}”"),
}
# Placeholders: {scope} begins the sentence; {asked}, {used}, {left}, {value} are formatted amounts.
REFUSALS = {
    Limit.SLOTS: gettext_noop("{scope} may have at most {value} allocated; you asked for {asked}."),
    Limit.SESSIONS: gettext_noop("{scope} has reached its limit of live sessions ({used} of {value})."),
    Limit.PENDING_SESSIONS: gettext_noop(
        "{scope} has reached its limit of waiting sessions ({used} of {value})."
    ),
    Limit.PENDING_SLOTS: gettext_noop(
        "{scope} has {left} left of {value} for sessions that wait; you asked for {asked}."
    ),
    Limit.CONTAINERS: gettext_noop(
        "{scope} may have at most {value} containers in one session; you asked for {asked}."
    ),
    Limit.LIFETIME: gettext_noop("{scope} may run a session for at most {value}; you asked for {asked}."),
    Limit.IDLE_TIMEOUT: gettext_noop(
        "{scope} has an idle timeout of at most {value}; you asked for {asked}."
    ),
    Limit.LEAST_CPU: gettext_noop("{scope} has a minimum CPU utilization of {value}."),
    Limit.LEAST_MEM: gettext_noop("{scope} has a minimum memory utilization of {value}."),
    Limit.LEAST_DEVICE: gettext_noop("{scope} has a minimum accelerator utilization of {value}."),
    Limit.LEAST_DEVICE_MEM: gettext_noop("{scope} has a minimum accelerator memory utilization of {value}."),
    Limit.USE_WINDOW: gettext_noop("{scope} has a utilization window of at most {value}."),
    Limit.USE_GRACE: gettext_noop("{scope} has a grace time of at most {value} for low utilization."),
    Limit.EXTENSIONS: gettext_noop("{scope} may extend a session at most {value} times."),
    Limit.EXTENSION: gettext_noop(
        "{scope} may extend a session by at most {value} at once; you asked for {asked}."
    ),
    Limit.PRIORITY: gettext_noop(
        "{scope} may give a session at most priority {value}; you asked for {asked}."
    ),
    Limit.FOLDERS: gettext_noop("{scope} has reached its limit of folders ({used} of {value})."),
    Limit.FOLDER_BYTES: gettext_noop(
        "{scope} has {left} left of {value} for folders; you asked for {asked}."
    ),
    Limit.KEYPAIRS: gettext_noop("{scope} has reached its limit of API tokens ({used} of {value})."),
    Limit.REQUESTS: gettext_noop("{scope} may send at most {value} requests in a minute with one API token."),
    Limit.BROWSERS: gettext_noop(
        "{scope} may have at most {value} concurrent logins; you asked for {asked}."
    ),
}

# For measured limits that are exceeded without a request. {over} is the excess.
EXCESSES = {
    Limit.FOLDER_BYTES: gettext_noop(
        "{scope} uses {used} for folders, {over} more than its limit of {value}."
    )
}


@dataclass(frozen=True, slots=True)
class Scope:
    """A domain, project, user or keypair with the limits of its policy and their current use.
    `allowed`: its allow-lists by name (`allow_lists`). `is_central`: only superadmins change the
    policy. `use_rule` combines its minimum utilisations.
    """

    level: Level
    id: int
    name: str
    policy: str
    limits: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    allowed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_central: bool = True
    use_rule: UtilizationRule = UtilizationRule.ANY

    def left(self, limit: str) -> int:
        """Return the unused rest of a limit of this scope. Never negative, although a limit may be
        below its use. 0 for minimum utilisations.
        """
        if is_floor(limit):
            return 0
        used = self.used.get(limit, 0) if is_summed(limit) else 0
        return max(0, self.limits[limit] - used)

    def is_joint(self, limit: str) -> bool:
        """Return true if reaching another minimum utilisation of the same policy suffices."""
        return is_floor(limit) and is_joint(self.use_rule, [name for name in self.limits if is_floor(name)])


@dataclass(frozen=True, slots=True)
class LimitState:
    """One limit of one scope: value, use, rest and requested amount. `is_joint`: see Scope.is_joint.
    `policy` is "" for a StorageLevel.
    """

    limit: str
    level: Level | StorageLevel
    scope: str
    policy: str
    value: int
    used: int
    left: int
    asked: int = 0
    is_joint: bool = False

    @property
    def title(self) -> str:
        """Title of the limit, e.g. "Live sessions" or "Memory in sessions"."""
        return limit_title(self.limit)

    @property
    def scope_name(self) -> str:
        """Name of the scope for administrators; `scope_title` addresses the user."""
        return scope_name(self.level, self.scope)

    @property
    def scope_title(self) -> str:
        return scope_title(self.level, self.scope)

    @property
    def over(self) -> int:
        """Amount by which the use exceeds the limit; 0 if it does not."""
        return max(0, self.used - self.value)

    @property
    def refusal(self) -> str:
        """Sentence that refuses the request, or reports the excess if nothing is requested."""
        kind, names = limit_kind(self.limit), ("value", "used", "left", "asked", "over")
        amounts = {name: format_limit(self.limit, getattr(self, name)) for name in names}
        is_excess = kind in EXCESSES and not self.asked
        sentence = EXCESSES[kind] if is_excess else REFUSALS[kind]
        return _(sentence).format(scope=self.scope_title, **amounts)


def scope_title(level: Level | StorageLevel, name: str) -> str:
    """Return e.g. "The project “vision”" or "Your account", addressed to the user."""
    return _(SCOPE_TITLES[level]).format(name=name)


def scope_name(level: Level | StorageLevel, name: str) -> str:
    """Return the name of a scope for administrators: the e-mail address of a user, else its title."""
    return name if level is Level.USER else scope_title(level, name)


def limit_kind(limit: str) -> Limit:
    return Limit(limit.partition(".")[0])


def limit_slot(limit: str) -> str:
    """Return the slot of a name such as `slots.cpu`; "" for limits without slots."""
    return limit.partition(".")[2]


def limit_title(limit: str) -> str:
    """Return the title of a limit, e.g. "Live sessions" or "Memory in sessions"."""
    slot = limit_slot(limit)
    return _(TITLES[limit_kind(limit)]).format(slot=slot_title(slot) if slot else "")


def applies_at(limit: str, level: Level) -> bool:
    return level in LIMIT_LEVELS.get(limit_kind(limit), frozenset(Level))


def is_summed(limit: str) -> bool:
    """Return true if a scope's use is summed for this limit."""
    return limit_kind(limit) not in CEILINGS | FLOORS


def is_floor(limit: str) -> bool:
    return limit_kind(limit) in FLOORS


def is_looser(limit: str, value: int, other: int) -> bool:
    """Return true if `value` of this limit permits more than `other`."""
    return value < other if is_floor(limit) else value > other


def refused_limits(scopes: Iterable[Scope], asked: Mapping[str, int]) -> tuple[LimitState, ...]:
    """Return every limit that would be exceeded if `asked` were granted; empty if it may be
    granted. A limit that is not requested is never hit, even if its use exceeds it. Ordered by
    level, then name.
    """
    found = [
        _limit_state(scope, limit, asked=amount)
        for scope in sort_scopes(scopes)
        for limit, amount in sorted(asked.items())
        if limit in scope.limits and amount > scope.left(limit)
    ]
    return tuple(found)


def unsatisfiable_limits(scopes: Iterable[Scope], asked: Mapping[str, int]) -> tuple[LimitState, ...]:
    """Return every limit that `asked` would exceed even without any use."""
    found = [
        _limit_state(scope, limit, asked=amount)
        for scope in sort_scopes(scopes)
        for limit, amount in sorted(asked.items())
        if limit in scope.limits and amount > max(0, scope.limits[limit])
    ]
    return tuple(found)


def priority_refusal(scopes: Iterable[Scope], priority: int, *, who: str) -> tuple[LimitState, ...]:
    """Return the refusal of a priority above 0 unless a policy of the whole installation allows
    one. Policies of a domain cannot allow it: their administrators must not overtake other domains.
    """
    is_raised = any(scope.is_central and Limit.PRIORITY in scope.limits for scope in scopes)
    if priority <= 0 or is_raised:
        return ()
    return (LimitState(Limit.PRIORITY, Level.USER, who, "", value=0, used=0, left=0, asked=priority),)


def overused_limits(scopes: Iterable[Scope], limit: Limit) -> tuple[LimitState, ...]:
    """Return the scopes whose use of `limit` exceeds it, by level."""
    states = (
        _limit_state(scope, limit.value) for scope in sort_scopes(scopes) if limit.value in scope.limits
    )
    return tuple(state for state in states if state.over)


def effective_limits(scopes: Iterable[Scope]) -> tuple[LimitState, ...]:
    """Return the tightest state of each limit: least rest, then smallest value, then widest scope.
    For minimum utilisations the largest; joint ones are all kept, because they only apply together.
    In the order of Limit.
    """
    tightest: dict[tuple[object, ...], LimitState] = {}
    for scope in sort_scopes(scopes):
        for limit in scope.limits:
            state = _limit_state(scope, limit)
            key = (limit, scope.level, scope.id) if state.is_joint else (limit,)
            known = tightest.get(key)
            if known is None or _tightness(state) < _tightness(known):
                tightest[key] = state
    return tuple(sorted(tightest.values(), key=lambda state: (_display_order(state.limit), state.is_joint)))


def all_limits(scopes: Iterable[Scope]) -> tuple[LimitState, ...]:
    """Return each limit of each scope, in the order of Limit, then from the widest scope."""
    states = [_limit_state(scope, limit) for scope in sort_scopes(scopes) for limit in scope.limits]
    return tuple(sorted(states, key=lambda state: _display_order(state.limit)))


def tightest_value(scopes: Iterable[Scope], limit: Limit) -> int | None:
    """Return the smallest value of a per-request limit; None if no scope sets it."""
    return min((scope.limits[limit] for scope in scopes if limit in scope.limits), default=None)


def sort_scopes(scopes: Iterable[Scope]) -> list[Scope]:
    order = list(Level)
    return sorted(scopes, key=lambda scope: (order.index(scope.level), scope.id))


def format_limit(limit: str, amount: int) -> str:
    """Format an amount for display, e.g. "2 cores", "3", "1 h 30 min"."""
    kind, slot = limit_kind(limit), limit_slot(limit)
    if slot:
        return format_amount(slot, amount)
    if kind is Limit.FOLDER_BYTES:
        return format_bytes(amount)
    if kind in DURATIONS:
        return format_duration(amount)
    return f"{amount} %" if kind in FLOORS else str(amount)


def _tightness(state: LimitState) -> tuple[int, int]:
    """Sort key: tighter states come first."""
    return (-state.value, 0) if is_floor(state.limit) else (state.left, state.value)


def _limit_state(scope: Scope, limit: str, *, asked: int = 0) -> LimitState:
    return LimitState(
        limit=limit,
        level=scope.level,
        scope=scope.name,
        policy=scope.policy,
        value=scope.limits[limit],
        used=scope.used.get(limit, 0) if is_summed(limit) else 0,
        left=scope.left(limit),
        asked=asked,
        is_joint=scope.is_joint(limit),
    )


def _display_order(limit: str) -> tuple[int, bool, bool, str]:
    """Sort key in the order of Limit; CPU and memory before devices."""
    slot = limit_slot(limit)
    return list(Limit).index(limit_kind(limit)), slot != CPU, slot != MEM, slot
