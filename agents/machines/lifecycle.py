"""State transitions of agents; the only code that writes `Agent.state`."""

from datetime import datetime
from typing import NamedTuple

import structlog
from django.db import transaction
from django.utils.translation import gettext as _

from agents.core.states import AgentState, is_legal
from agents.events import AgentDrained, AgentLost, CapacityChanged
from agents.models import Agent
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict
from common.messaging.events import publish
from common.messaging.live_updates import Audience, push_on_commit
from common.pages.status_styles import status_style

log = structlog.get_logger(__name__)

COLUMNS = ("state", "state_before_loss", "state_changed_at", "maintenance_ends_at", "maintenance_reason")
CLOSED = (AgentState.DRAINING, AgentState.MAINTENANCE)
"""States that an administrator chose, of which the owners of its sessions are told, once."""


class IllegalTransition(Conflict):
    """The transition from the agent's state to the wanted state is not allowed."""

    default_code = "illegal_transition"


class Maintenance(NamedTuple):
    """Planned end of a maintenance, None if it is unknown, and its reason for people who wait."""

    ends_at: datetime | None = None
    because: str = ""


UNPLANNED = Maintenance()


@transaction.atomic
def transition(agent_id: int, *, to: AgentState, actor: Actor, maintenance: Maintenance = UNPLANNED) -> Agent:
    """Move the agent to state `to` and return its fresh row; a repeat changes nothing, but a repeated
    MAINTENANCE gets another end and reason.

    The state before a loss is stored, so that a draining agent still drains when it comes back.
    Raises IllegalTransition, Agent.DoesNotExist.
    """
    agent: Agent = Agent.objects.select_for_update().get(pk=agent_id)
    current = AgentState(agent.state)
    planned = Maintenance(agent.maintenance_ends_at, agent.maintenance_reason)
    if current is to and maintenance in (planned, UNPLANNED):
        return agent
    if current is not to and not is_legal(current, to):
        sentence = _("Agent “{agent}” is {state} and cannot become {wanted}.")
        words = {"state": status_style(current).label.lower(), "wanted": status_style(to).label.lower()}
        raise IllegalTransition(sentence.format(agent=agent.name, **words))

    known = agent.state_before_loss if current is AgentState.LOST else current
    if to is AgentState.LOST:
        agent.state_before_loss = current.value
    agent.state = to.value
    agent.state_changed_at = clock.now()
    agent.maintenance_ends_at, agent.maintenance_reason = maintenance
    agent.save(update_fields=COLUMNS)

    log.info("agent.transition", agent_id=agent.pk, agent=agent.name, frm=current, to=to, actor=actor.label)
    changes: dict[str, object] = {"state": [current, to]}
    if maintenance.ends_at is not None:
        changes["until"] = maintenance.ends_at.isoformat(timespec="minutes")
    if maintenance.because:
        changes["because"] = maintenance.because
    audit_log.record(actor=actor, action="agents.transition", target=agent, changes=changes)
    if to in CLOSED and known not in CLOSED:
        publish(AgentDrained(agent.pk, agent.name, agent.state_changed_at))
    if to is AgentState.LOST:
        publish(AgentLost(agent.pk, agent.resource_group_id))
    if to is AgentState.CONNECTED:
        publish(CapacityChanged(agent.resource_group_id))
    push_agent_change(agent)
    return agent


def push_agent_change(agent: Agent) -> None:
    """Publish a live update to everyone, since all users see agents; it carries only the id."""
    push_on_commit("agent-changed", audience=Audience(), payload={"id": agent.pk})
