"""States of an agent and the legal transitions between them. Pure."""

from enum import StrEnum

from common.i18n import gettext_noop


class AgentState(StrEnum):
    """State of an agent.
    Only CONNECTED accepts new sessions; in CONNECTED and DRAINING the engine is monitored.
    """

    CONNECTED = "connected"
    LOST = "lost"
    DRAINING = "draining"
    MAINTENANCE = "maintenance"
    RETIRED = "retired"

    @property
    def is_watched(self) -> bool:
        """True if silence of the engine makes the agent lost."""
        return self in (AgentState.CONNECTED, AgentState.DRAINING)


TRANSITIONS: dict[AgentState, frozenset[AgentState]] = {
    AgentState.CONNECTED: frozenset(
        {AgentState.LOST, AgentState.DRAINING, AgentState.MAINTENANCE, AgentState.RETIRED}
    ),
    AgentState.LOST: frozenset(
        {AgentState.CONNECTED, AgentState.DRAINING, AgentState.MAINTENANCE, AgentState.RETIRED}
    ),
    AgentState.DRAINING: frozenset(
        {AgentState.CONNECTED, AgentState.LOST, AgentState.MAINTENANCE, AgentState.RETIRED}
    ),
    AgentState.MAINTENANCE: frozenset({AgentState.CONNECTED, AgentState.DRAINING, AgentState.RETIRED}),
    AgentState.RETIRED: frozenset({AgentState.CONNECTED}),
}

STATE_TITLES = {
    AgentState.CONNECTED: gettext_noop("Connected"),
    AgentState.LOST: gettext_noop("Lost"),
    AgentState.DRAINING: gettext_noop("Draining"),
    AgentState.MAINTENANCE: gettext_noop("Maintenance"),
    AgentState.RETIRED: gettext_noop("Retired"),
}


def is_legal(current: AgentState, to: AgentState) -> bool:
    return to in TRANSITIONS[current]
