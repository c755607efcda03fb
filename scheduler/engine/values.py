"""Enumerations and aliases of the engine."""

from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from common.values.resources import ResourceSlots


class PlacementRule(StrEnum):
    """How a session is placed beside the others of its group."""

    SPREAD = "spread"  # on a machine with the fewest of them that has room
    PACK = "pack"  # on a machine with some of them, if one has room
    STRICT_SPREAD = "strict_spread"  # on a machine with none of them, or it waits
    STRICT_PACK = "strict_pack"  # on a machine with some of them, or it waits; the first of them anywhere

    @property
    def is_apart(self) -> bool:
        return self in (PlacementRule.SPREAD, PlacementRule.STRICT_SPREAD)

    @property
    def is_strict(self) -> bool:
        return self in (PlacementRule.STRICT_SPREAD, PlacementRule.STRICT_PACK)


class Companions(NamedTuple):
    """Those of one placement group, by its key, and the rule of the session that names it."""

    key: str
    rule: PlacementRule


class Host(NamedTuple):
    """An agent, and how many sessions of a placement group it has."""

    agent_id: int
    sessions: int


class Gang(StrEnum):
    """Where the kernels of a session may be; in each case all of them start, or none."""

    ANYWHERE = "anywhere"
    ONE_MACHINE = "one_machine"  # all on the same agent: one search, for what they ask together
    SPREAD = "spread"  # no two of them on one agent


NO_SLOTS = ResourceSlots()

NO_RESERVATIONS: frozenset[int] = frozenset()

# What nobody knows the length of counts as so long where an agent will be reserved: else one reservation far ahead would
# keep all that has no time limit from the agent until then.
LENGTH_OF_UNKNOWN = timedelta(days=7)


class Strategy(StrEnum):
    """Which of the agents with room gets a kernel."""

    CONCENTRATED = "concentrated"  # the fullest: keeps whole machines free for big sessions
    DISPERSED = "dispersed"  # the emptiest: sessions disturb each other least
    ROUND_ROBIN = "round_robin"  # one after the other, whatever they have free


class Policy(StrEnum):
    """In which order waiting sessions are tried, inside one priority."""

    FIFO = "fifo"  # the oldest first
    LIFO = "lifo"  # the newest first
    DRF = "drf"  # of the owner who holds least of what he holds most of (dominant resource fairness)
    FAIR_SHARE = "fair_share"  # of the domain, in it the project, in it the owner that held least lately


class ReasonCode(StrEnum):
    """Why a session goes on waiting. `scheduler/explain/messages.py` has a sentence for each."""

    GROUP_PAUSED = "group_paused"  # nothing starts in the group until an administrator lets it
    NO_AGENTS = "no_agents"  # nothing of this architecture takes sessions now
    AGENT_UNAVAILABLE = "agent_unavailable"  # the one agent it must run on takes none now
    NEVER_FITS = "never_fits"  # not even if everything in the group were free
    NO_CAPACITY = "no_capacity"  # more than the group has free
    BUDGET_SPENT = "budget_spent"  # of its project or owner; it starts when a new period begins
    LIMIT_REACHED = "limit_reached"  # what its domain, project, owner or token may hold is in use
    FRAGMENTED = "fragmented"  # the group has that much free, but not where one kernel could have it
    KEPT_FREE = "kept_free"  # there is room, but it is kept for a session ahead that needs more of it
    PRIORITY = "priority"  # the same, and all of it is kept for sessions with a higher priority
    MAKING_ROOM = "making_room"  # sessions of a lower priority are being ended for it
    PLACEMENT_RULE = "placement_rule"  # there is room, but not where its placement group lets it be
    RESERVATION = "reservation"  # there is room, but on machines that are reserved for others


HostTerms = tuple[str, str, int | None, frozenset[int]]

Fractions = tuple[tuple[int, float], ...]  # of slots (their numbers), how much of all that the group has
