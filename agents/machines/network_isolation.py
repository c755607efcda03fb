"""Network isolation of sessions on a machine: sessions cannot reach the machine itself, other
sessions or the cloud's metadata services. The rules are in `network_isolation.sh`, which a helper
container installs.

The rules are lost when the machine boots, and other software may reset its firewall. So they are
installed again after every boot and every few minutes, and each session launch checks that they are
in place.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from uuid import uuid4

import structlog
from django.conf import settings
from django.db import transaction

from agents.machines.helper_containers import NO_IMAGE, helper_image, one_off_labels
from agents.machines.lifecycle import push_agent_change
from agents.models import Agent
from agents.runtime.port import HelperSpec, RuntimeFault
from agents.selectors import connected_agents, runtime_of
from common import clock
from common.resilience.keyed_pool import KeyedPool
from images.selectors import built_image_ids

log = structlog.get_logger(__name__)

RENEWED_EVERY = timedelta(minutes=5)
TRUSTED_FOR = timedelta(minutes=15)
"""Maximum age of the rules at a session launch; the periodic rounds renew them well before."""

INSTALLERS = 8
ROUND_S = 120
ERROR_LENGTH = 500
NOT_REQUIRED = "best-effort"
_pool = KeyedPool[str]("isolation", INSTALLERS)


class IsolationMissing(RuntimeFault):
    """Network isolation is not in place on a machine and cannot be installed."""

    code = "walls_missing"


def require_isolation(agent: Agent) -> None:
    """Ensure network isolation on the machine, installing it now if needed. Raises IsolationMissing,
    unless BERTH_WALLS allows machines without it.
    """
    if is_isolated(agent, TRUSTED_FOR):
        return
    error = install_isolation(agent, built_image_ids())
    record_isolation(agent.pk, error)
    if error and settings.BERTH_WALLS != NOT_REQUIRED:
        raise IsolationMissing(error)


def renew_isolation() -> None:
    """Install network isolation on all machines where it is old, missing or failed."""
    due = [agent for agent in connected_agents() if not is_isolated(agent, RENEWED_EVERY)]
    image_ids = built_image_ids() if due else []
    work = {agent.pk: partial(install_isolation, agent, image_ids) for agent in due}
    for agent_id, error in _pool.results(work, timeout_s=ROUND_S):
        record_isolation(agent_id, error)


def is_isolated(agent: Agent, trusted_for: timedelta) -> bool:
    """True if the rules were installed since the machine's last boot and within `trusted_for`.
    Simulated engines need none.
    """
    if agent.is_simulated:
        return True
    walls = agent.data.get("walls", {})
    if walls.get("error", "never raised") or walls["life_id"] != agent.data.get("life_id"):
        return False
    age = clock.now() - datetime.fromisoformat(walls["raised_at"])
    return timedelta(0) <= age < trusted_for


def install_isolation(agent: Agent, image_ids: Sequence[str]) -> str:
    """Install the rules; return the reason if that fails, else "".

    `image_ids` are images that may run as root on machines; the first one on the machine is used.
    Calls the engine, never the database.
    """
    try:
        runtime = runtime_of(agent)
        image_id = helper_image(runtime, image_ids)
        if image_id is None:
            return f"No walls around sessions: {NO_IMAGE}."
        done = runtime.run_helper(helper_spec(image_id))
    except RuntimeFault as fault:
        return f"No walls around sessions: {fault}"[:ERROR_LENGTH]
    output = " ".join(done.output.decode(errors="replace").split())
    if done.exit_code:
        return f"No walls around sessions (exit code {done.exit_code}): {output}"[:ERROR_LENGTH]
    if output:
        log.warning("walls.partly", agent=agent.name, output=output[:ERROR_LENGTH])
    return ""


def helper_spec(image_id: str) -> HelperSpec:
    return HelperSpec(
        name=f"berth-walls-{uuid4().hex[:12]}",
        image=image_id,
        labels=one_off_labels("walls"),
        command=("sh", "-c", _script()),
        capabilities=("NET_ADMIN",),
        has_network=True,
    )


@cache
def _script() -> str:
    return Path(__file__).with_suffix(".sh").read_text()


@transaction.atomic
def record_isolation(agent_id: int, error: str) -> None:
    """Record that the rules were installed in the machine's present boot, or the error if not."""
    agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
    before = agent.data.get("walls", {}).get("error", "")
    agent.data["walls"] = {
        "error": error,
        "life_id": agent.data.get("life_id"),
        "raised_at": clock.now().isoformat(),
    }
    agent.save(update_fields=["data"])
    if error:
        log.warning("walls.missing", agent_id=agent.pk, agent=agent.name, error=error)
    if error != before:
        push_agent_change(agent)
