"""Facts and warnings about a machine's engine and connection, for its page."""

from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from agents.core.engine_versions import version_warnings
from agents.models import KIND_TITLES, Agent, ConnectionKind
from common import clock

WARNED_DAYS = 30


def machine_facts(agent: Agent) -> list[tuple[str, str]]:
    """Return (title, value) of what is known; omits what is not."""
    data = agent.data
    numa = data.get("numa_cores") or {}
    found = [
        (_("Operating system"), " · ".join(filter(None, (data.get("os"), data.get("kernel"))))),
        (_("Control groups"), f"v{data['cgroup_version']}" if data.get("cgroup_version") else ""),
        (_("Storage driver"), data.get("storage_driver", "")),
        (_("Cores"), _cores(data.get("cores"), len(numa))),
        (_("Runtimes"), ", ".join(data.get("runtimes") or [])),
        (_("Live restore"), _("on") if data.get("has_live_restore") else ""),
        (_("Connection"), _(KIND_TITLES[ConnectionKind(agent.connection.get("kind", ""))])),
        (_("SSH host key"), agent.connection.get("host_key", "")),
        (_("Certificate"), _certificate(agent)),
    ]
    return [(title, str(value)) for title, value in found if value]


def machine_warnings(agent: Agent) -> list[str]:
    """Return what an administrator should change."""
    found = [_(sentence) for sentence in version_warnings(agent.engine_version)]
    if agent.data.get("has_live_restore") is False and not agent.is_simulated:
        found.append(_("Live restore is off: a restart of the engine ends all sessions there. Add “\"live-restore\": true” to /etc/docker/daemon.json and reload the engine."))  # fmt: skip
    days = days_left(agent)
    if days is not None and days <= WARNED_DAYS:
        found.append(
            _("The certificate of this machine ends in {days} days. Issue it again.").format(days=days)
        )
    if agent.connection.get("kind") == ConnectionKind.PLAIN:
        found.append(_("The engine is reached without certificates: whoever reaches it owns the machine."))
    return found


def days_left(agent: Agent) -> int | None:
    """Return the days until the certificate that Berth issued ends; None if there is none."""
    ends_at = agent.connection.get("ends_at")
    return (datetime.fromisoformat(ends_at) - clock.now()).days if ends_at else None


def _certificate(agent: Agent) -> str:
    days = days_left(agent)
    names = ", ".join(agent.connection.get("names", []))
    return "" if days is None else _("{days} days left, for {names}").format(days=days, names=names)


def _cores(cores: Any, nodes: int) -> str:
    if not cores:
        return ""
    return _("{cores} in {nodes} NUMA nodes").format(cores=cores, nodes=nodes) if nodes > 1 else str(cores)
