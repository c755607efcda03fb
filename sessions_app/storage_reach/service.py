"""Keeps the proofs of storage hosts, and the settings of how machines reach them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin
from agents.events import CapacityChanged
from agents.models import Agent
from agents.runtime.port import RuntimeUnavailable
from agents.selectors import connected_agents
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import InvalidInput, NotFound
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.messaging.events import publish
from common.resilience.keyed_pool import KeyedPool
from images.selectors import built_image_ids
from sessions_app.models import ComputeSession, Kernel, StorageReach
from sessions_app.storage_reach.proof import prove
from vfolders.core.mounts import InvalidMount, check_agent_path, check_volume_options
from vfolders.models import StorageHost

log = structlog.get_logger(__name__)

RENEWED_EVERY = timedelta(minutes=5)
RETRIED_EVERY = timedelta(minutes=1)
PROVERS = 8
ROUND_S = 240
_pool = KeyedPool[str | None]("storage", PROVERS)
NOT_THIS_MACHINE = "The host is local to the portal's machine. State how other machines reach it."


def keep_proofs() -> None:
    """Prove all pairs of a machine and a storage host that are due; write the result of each as it arrives,
    so that a machine that hangs delays no other.
    """
    hosts, agents = list(StorageHost.objects.order_by("pk")), list(connected_agents())
    trust_simulated(hosts)
    rows = {(row.agent_id, row.host_id): row for row in StorageReach.objects.filter(agent__in=agents)}
    pairs = [(host, agent) for agent in agents if not agent.is_simulated for host in hosts]
    prove_pairs([pair for pair in pairs if _is_due(rows.get((pair[1].pk, pair[0].pk)), *pair)])


def prove_pairs(pairs: Sequence[tuple[StorageHost, Agent]]) -> None:
    """Prove these pairs now, and record what is found. One proof of a pair at a time: the caller has the
    lock of the rounds.
    """
    remote = [(host, agent) for host, agent in pairs if is_provable(host, agent)]
    for host, agent in pairs:
        if not is_provable(host, agent):
            record_reach(host, agent, NOT_THIS_MACHINE)
    image_ids = built_image_ids() if remote else []
    work = {(host.pk, agent.pk): partial(_error_or_none, host, agent, image_ids) for host, agent in remote}
    pair_by_key = {(host.pk, agent.pk): (host, agent) for host, agent in remote}
    for key, error in _pool.results(work, timeout_s=ROUND_S):
        if error is not None:
            record_reach(*pair_by_key[key], error)


def _error_or_none(host: StorageHost, agent: Agent, image_ids: Sequence[str]) -> str | None:
    """Return what `prove` returns; None if the engine does not answer: the heartbeats judge the machine."""
    try:
        return prove(host, agent, image_ids)
    except RuntimeUnavailable as fault:
        log.warning("storage.unproven", host=host.name, agent=agent.name, error=str(fault))
        return None


def is_provable(host: StorageHost, agent: Agent) -> bool:
    """False if the machine cannot reach the host by its settings."""
    return agent.is_local or host.reach != StorageHost.Reach.LOCAL


def _is_due(row: StorageReach | None, host: StorageHost, agent: Agent) -> bool:
    if row is None or row.basis != basis_of(host, agent):
        return True
    age = clock.now() - row.checked_at
    is_settled = row.is_reached or not is_provable(host, agent)
    return not timedelta(0) <= age < (RENEWED_EVERY if is_settled else RETRIED_EVERY)


def basis_of(host: StorageHost, agent: Agent) -> str:
    """Return what identifies the settings of the host and the boot of the machine."""
    facts = [
        host.kind,
        host.config,
        host.secrets,
        host.reach,
        host.agent_path,
        host.volume_options,
        host.volume_secret,
    ]
    return sha256(repr([*facts, agent.address, agent.data.get("life_id")]).encode()).hexdigest()


@transaction.atomic
def record_reach(host: StorageHost, agent: Agent, error: str) -> None:
    """Record a proof, and give the scheduler the names of the hosts that the machine reaches. A proof of
    settings that changed meanwhile counts for nothing; the next round proves the new ones.
    """
    locked = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
    present = StorageHost.objects.filter(pk=host.pk).first()
    if present is None or basis_of(present, locked) != basis_of(host, agent):
        return
    values = {
        "is_reached": not error,
        "error": error[:500],
        "basis": basis_of(host, agent),
        "checked_at": clock.now(),
    }
    StorageReach.objects.update_or_create(agent=locked, host=host, defaults=values)
    _write_hosts(locked)


def _write_hosts(agent: Agent) -> None:
    reached = StorageReach.objects.filter(agent=agent, is_reached=True).order_by("host__name")
    names = list(reached.values_list("host__name", flat=True))
    if names == agent.storage_hosts:
        return
    log.info("storage.reach_changed", agent_id=agent.pk, agent=agent.name, hosts=names)
    agent.storage_hosts = names
    agent.save(update_fields=["storage_hosts"])
    publish(CapacityChanged(agent.resource_group_id))


def trust_simulated(hosts: Iterable[StorageHost]) -> None:
    """Let simulated machines reach all hosts: their containers run nothing."""
    names = sorted(host.name for host in hosts)
    simulated = Agent.objects.in_use().filter(address__startswith="simulated://")
    simulated.exclude(storage_hosts=names).update(storage_hosts=names)


def doubt_reach(session_id: UUID) -> None:
    """Have the machines of a session prove its storage hosts again soon."""
    names = ComputeSession.objects.filter(pk=session_id).values_list("storage_hosts", flat=True).first()
    if names:
        kernels = Kernel.objects.filter(session=session_id, agent__isnull=False)
        doubted = StorageReach.objects.filter(agent__in=kernels.values("agent"), host__name__in=names)
        doubted.update(basis="")
        enqueue_on_commit(TaskName.PROVE_STORAGE)


def without_secrets(text: str, session_id: UUID) -> str:
    """Return the text of an engine without passwords of the shares that the session mounts."""
    hosts = StorageHost.objects.filter(folders__mounts__session=session_id, reach=StorageHost.Reach.VOLUME)
    for secret in {host.volume_secret for host in hosts if host.volume_secret}:
        text = text.replace(secret, "…")
    return text


def check_host(*, actor: Actor, host_id: int) -> StorageHost:
    """Have all machines proven again within seconds. Raises NotFound, PermissionDenied."""
    require_superadmin(actor)
    with transaction.atomic():
        host = _lock_host(host_id)
        StorageReach.objects.filter(host=host).update(basis="")
        audit_log.record(actor=actor, action="vfolders.check_storage_host", target=host)
        enqueue_on_commit(TaskName.PROVE_STORAGE)
    return host


def change_reach(*, actor: Actor, host_id: int, changes: Mapping[str, Any]) -> StorageHost:
    """Change how machines reach a host: `reach`, `agent_path`, `volume_options` and `secret`, which is kept
    if absent. Running sessions keep their mounts; machines are proven anew.

    Raises InvalidInput, NotFound, PermissionDenied.
    """
    require_superadmin(actor)
    with transaction.atomic():
        host = _lock_host(host_id)
        before = (host.reach, host.agent_path, host.volume_options, host.volume_secret)
        host.reach = changes.get("reach", host.reach)
        path = changes.get("agent_path", host.agent_path)
        options = changes.get("volume_options", host.volume_options)
        secret = changes.get("secret", host.volume_secret)
        is_path, is_volume = host.reach == StorageHost.Reach.PATH, host.reach == StorageHost.Reach.VOLUME
        try:
            host.agent_path = check_agent_path(path) if is_path else ""
            host.volume_options = check_volume_options(options, secret) if is_volume else {}
        except InvalidMount as error:
            raise InvalidInput(str(error), fields={error.field: [str(error)]}) from error
        host.volume_secret = secret if is_volume else ""
        if before == (host.reach, host.agent_path, host.volume_options, host.volume_secret):
            return host
        host.save(update_fields=["reach", "agent_path", "volume_options", "volume_secret"])
        shown = {"reach": host.reach, "agent_path": host.agent_path, "volume_options": host.volume_options}
        audit_log.record(actor=actor, action="vfolders.change_storage_reach", target=host, changes=shown)
        _forget_others(host)
        enqueue_on_commit(TaskName.PROVE_STORAGE)
    return host


def _forget_others(host: StorageHost) -> None:
    """Forget the proofs of machines other than the portal's: they were of the former settings."""
    agents = Agent.objects.filter(storage_reaches__host=host).exclude(address__startswith="unix://")
    for agent in agents.order_by("pk").select_for_update(no_key=True, of=("self",)):
        StorageReach.objects.filter(agent=agent, host=host).delete()
        _write_hosts(agent)


def _lock_host(host_id: int) -> StorageHost:
    host = StorageHost.objects.select_for_update().filter(pk=host_id).first()
    if host is None:
        raise NotFound(_("There is no such storage host."))
    return host
