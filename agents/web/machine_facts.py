"""Facts and warnings about a machine's engine and connection, for its page."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from ipaddress import ip_network
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.core.engine_versions import version_warnings
from agents.core.sandboxes import RUNTIMES, SANDBOX_NAMES, Sandbox
from agents.machines.service import is_maintenance_over
from agents.models import KIND_TITLES, Agent, ConnectionKind
from common import clock
from common.values.resources import format_bytes

WARNED_DAYS = 30
LEAST_FREE_SHARE = 10
LEAST_FREE_BYTES = 10 * 2**30
SLOW_DRIVERS = ("vfs", "devicemapper", "aufs", "overlay")


def machine_facts(agent: Agent) -> list[tuple[str, str]]:
    """Return (title, value) of what is known; omits what is not."""
    data = agent.data
    pools = [f"{base} /{size}" for base, size in data.get("address_pools") or ()]
    found = [
        (_("Engine API"), data.get("api_version", "")),
        (_("Operating system"), " · ".join(filter(None, (data.get("os"), data.get("kernel"))))),
        (_("Control groups"), f"v{data['cgroup_version']}" if data.get("cgroup_version") else ""),
        (_("Cores"), _cores(data)),
        (_("Memory"), format_bytes(data["mem_bytes"]) if data.get("mem_bytes") else ""),
        (_("Disk"), _disk(data.get("disk") or {})),
        (_("Storage driver"), data.get("storage_driver", "")),
        (_("Address pools"), ", ".join(pools)),
        (_("Runtimes"), _runtimes(data)),
        (_("Sandboxes"), ", ".join(SANDBOX_NAMES[name] for name in agent.sandboxes)),
        (_("Live restore"), _("on") if data.get("has_live_restore") else ""),
        (_("Connection"), _(KIND_TITLES[ConnectionKind(agent.connection.get("kind", ""))])),
        (_("SSH host key"), agent.connection.get("host_key", "")),
        (_("Certificate"), _certificate(agent)),
    ]
    return [(title, str(value)) for title, value in found if value]


def machine_warnings(agent: Agent) -> list[str]:
    """Return what an administrator should change, and how."""
    found = [_(sentence) for sentence in version_warnings(agent.engine_version)]
    found += [_over_maintenance(agent)] if is_maintenance_over(agent) else []
    if missing := agent.missing_sandbox:
        sentence = _("It gets no sessions: its group “{group}” runs them in {sandbox}, which its engine lacks. Install it, register it as the runtime {runtime} in /etc/docker/daemon.json, reload the engine, and check the machine here.")  # fmt: skip
        words = {"sandbox": SANDBOX_NAMES[missing], "runtime": RUNTIMES[Sandbox(missing)][0]}
        found.append(sentence.format(group=agent.resource_group.name, **words))
    if not agent.is_simulated:
        found += _engine_warnings(agent.data)
    days = days_left(agent)
    if days is not None and days <= WARNED_DAYS:
        found.append(
            _("The certificate of this machine ends in {days} days. Issue it again.").format(days=days)
        )
    if agent.connection.get("kind") == ConnectionKind.PLAIN:
        found.append(_("The engine is reached without certificates: whoever reaches it owns the machine."))
    return found


def _engine_warnings(data: Mapping[str, Any]) -> list[str]:
    """Return warnings about how the engine is set up."""
    found = []
    if data.get("has_live_restore") is False:
        found.append(_("Live restore is off: a restart of the engine ends all sessions there. Add “\"live-restore\": true” to /etc/docker/daemon.json and reload the engine."))  # fmt: skip
    if data.get("cgroup_version") == 1:
        found.append(_("It uses control groups v1, which new engines and distributions drop. Boot it with systemd.unified_cgroup_hierarchy=1."))  # fmt: skip
    driver = data.get("storage_driver", "")
    if driver in SLOW_DRIVERS:
        found.append(_("The storage driver {driver} is slow or no longer supported. Drain the machine, and set “\"storage-driver\": \"overlay2\"” in /etc/docker/daemon.json; images are pulled again.").format(driver=driver))  # fmt: skip
    if taken := _overlap(data.get("address_pools") or ()):
        found.append(_("The engine may give its own networks addresses in {pool}, which are those of sessions ({sessions}). Choose other default-address-pools in /etc/docker/daemon.json, or another BERTH_SESSION_POOL.").format(pool=taken, sessions=settings.BERTH_SESSION_POOL))  # fmt: skip
    disk = data.get("disk") or {}
    if disk and disk["free_bytes"] < max(LEAST_FREE_BYTES, disk["size_bytes"] // LEAST_FREE_SHARE):
        found.append(_("Only {free} of {size} are free where the engine has images and containers. Remove images that nobody needs there (docker image prune), or enlarge the disk.").format(free=format_bytes(disk["free_bytes"]), size=format_bytes(disk["size_bytes"])))  # fmt: skip
    return found


def _overlap(pools: Iterable[Sequence[Any]]) -> str:
    """Return the first pool of the engine that overlaps that of sessions; "" if none does."""
    sessions = ip_network(settings.BERTH_SESSION_POOL)
    bases = [ip_network(base, strict=False) for base, _size in pools]
    return next((str(base) for base in bases if base.version == 4 and base.overlaps(sessions)), "")


def _over_maintenance(agent: Agent) -> str:
    sentence = _("Its maintenance should have ended, but it does not answer. It takes sessions again as soon as it does. {error}")  # fmt: skip
    return sentence.format(error=agent.last_error).strip()


def days_left(agent: Agent) -> int | None:
    """Return the days until the certificate that Berth issued ends; None if there is none."""
    ends_at = agent.connection.get("ends_at")
    return (datetime.fromisoformat(ends_at) - clock.now()).days if ends_at else None


def _certificate(agent: Agent) -> str:
    days = days_left(agent)
    names = ", ".join(agent.connection.get("names", []))
    return "" if days is None else _("{days} days left, for {names}").format(days=days, names=names)


def _cores(data: Mapping[str, Any]) -> str:
    """Return the cores in words, with sockets, threads and NUMA nodes where they are known."""
    topology, nodes = data.get("topology") or {}, len(data.get("numa_cores") or {})
    parts = []
    if topology:
        sentence = ngettext(
            "{cores} with {threads} threads in {count} socket",
            "{cores} with {threads} threads in {count} sockets",
            topology["sockets"],
        )
        parts.append(sentence.format(count=topology["sockets"], **topology))
    elif data.get("cores"):
        parts.append(str(data["cores"]))
    if nodes > 1:
        parts.append(_("{nodes} NUMA nodes").format(nodes=nodes))
    return ", ".join(parts)


def _disk(disk: Mapping[str, int]) -> str:
    if not disk:
        return ""
    free, size = format_bytes(disk["free_bytes"]), format_bytes(disk["size_bytes"])
    return _("{free} of {size} free").format(free=free, size=size)


def _runtimes(data: Mapping[str, Any]) -> str:
    usual = data.get("default_runtime")
    names = [
        _("{runtime} (default)").format(runtime=name) if name == usual else name
        for name in data.get("runtimes") or ()
    ]
    return ", ".join(names)
