"""State transitions of agents; the only code that writes `Agent.state`."""

import structlog
from django.db import transaction
from django.utils.translation import gettext as _

from agents.core.states import AgentState, is_legal
from agents.events import AgentLost, CapacityChanged
from agents.models import Agent
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict
from common.messaging.events import publish
from common.messaging.live_updates import Audience, push_on_commit
from common.pages.status_styles import status_style

log = structlog.get_logger(__name__)


class IllegalTransition(Conflict):
    """The transition from the agent's state to the wanted state is not allowed."""

    default_code = "illegal_transition"


@transaction.atomic
def transition(agent_id: int, *, to: AgentState, actor: Actor) -> Agent:
    """Move the agent to state `to` and return its fresh row; a repeat changes nothing.

    The state before a loss is stored, so that a draining agent still drains when it comes back.
    Raises IllegalTransition, Agent.DoesNotExist.
    """
    agent: Agent = Agent.objects.select_for_update().get(pk=agent_id)
    current = AgentState(agent.state)
    if current is to:
        return agent
    if not is_legal(current, to):
        sentence = _("Agent “{agent}” is {state} and cannot become {wanted}.")
        words = {"state": status_style(current).label.lower(), "wanted": status_style(to).label.lower()}
        raise IllegalTransition(sentence.format(agent=agent.name, **words))

    if to is AgentState.LOST:
        agent.state_before_loss = current.value
    agent.state = to.value
    agent.state_changed_at = clock.now()
    agent.save(update_fields=["state", "state_before_loss", "state_changed_at"])

    log.info("agent.transition", agent_id=agent.pk, agent=agent.name, frm=current, to=to, actor=actor.label)
    audit_log.record(actor=actor, action="agents.transition", target=agent, changes={"state": [current, to]})
    if to is AgentState.LOST:
        publish(AgentLost(agent.pk, agent.resource_group_id))
    if to is AgentState.CONNECTED:
        publish(CapacityChanged(agent.resource_group_id))
    push_agent_change(agent)
    return agent


def push_agent_change(agent: Agent) -> None:
    """Publish a live update to everyone, since all users see agents; it carries only the id."""
    push_on_commit("agent-changed", audience=Audience(), payload={"id": agent.pk})
