"""Copies of the session image to machines that have none, from the portal's own engine.

Helpers on a machine run in it: network isolation, without which no session starts, and the look at
accelerators. So a machine needs nothing but its engine.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import structlog
from django.db import transaction

from agents.machines.lifecycle import push_agent_change
from agents.models import Agent, AgentImage
from agents.runtime.port import RuntimeFault
from agents.selectors import connected_agents, runtime_of
from common import clock

log = structlog.get_logger(__name__)

COPIED_AT_ONCE = 2
RETRIED_EVERY = timedelta(minutes=10)
ERROR_LENGTH = 500
LOCAL = "unix://"


def copy_images(image_ids: Sequence[str]) -> None:
    """Copy the newest of these images that the portal's own engine has to each connected machine that
    has none of them. A failed copy is tried again minutes later.
    """
    agents = [agent for agent in connected_agents() if not agent.is_simulated]
    rows = AgentImage.objects.filter(agent__in=agents, image_id__in=image_ids).order_by("reference")
    names = {(row.agent_id, row.image_id): row.reference for row in rows}
    supplied = {agent_id for agent_id, _ in names}
    found = [
        (agent, names[agent.pk, image_id])
        for image_id in image_ids
        for agent in agents
        if agent.address.startswith(LOCAL) and (agent.pk, image_id) in names
    ]
    due = [agent for agent in agents if agent.pk not in supplied and _is_due(agent)]
    if not found or not due:
        return
    source, reference = found[0]
    with ThreadPoolExecutor(COPIED_AT_ONCE, thread_name_prefix="images") as pool:
        errors = pool.map(lambda agent: _copy(source, agent, reference), due)
        for agent, error in zip(due, errors, strict=True):
            _record(agent.pk, reference, error)


def _is_due(agent: Agent) -> bool:
    last = agent.data.get("image_copy")
    return last is None or clock.now() - datetime.fromisoformat(last["at"]) >= RETRIED_EVERY


def _copy(source: Agent, target: Agent, reference: str) -> str:
    """Copy the image; return the reason if that fails, else "". Calls engines, never the database."""
    try:
        runtime_of(target).import_image(runtime_of(source).export_image(reference))
    except RuntimeFault as fault:
        return str(fault)[:ERROR_LENGTH]
    return ""


@transaction.atomic
def _record(agent_id: int, reference: str, error: str) -> None:
    agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
    agent.data["image_copy"] = {"at": clock.now().isoformat(), "image": reference, "error": error}
    agent.data.pop("discovery", None)  # the look needed the image
    agent.save(update_fields=["data"])
    log.info("image.copied", agent_id=agent.pk, agent=agent.name, image=reference, error=error)
    push_agent_change(agent)
