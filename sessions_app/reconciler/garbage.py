"""Removes containers, networks and volumes that no live session owns."""

import re
from collections.abc import Iterable
from uuid import UUID

import structlog
from django.conf import settings

from agents.machines.observation import require_own_engine
from agents.models import Agent
from agents.runtime.port import (
    ContainerRuntime,
    ContainerState,
    ContainerStatus,
    LabelledObject,
    RuntimeFault,
    RuntimeUnavailable,
)
from sessions_app.core import container_spec
from sessions_app.launch import cluster_network
from sessions_app.launch.network_pool import reap_pool, remove_session_network
from sessions_app.launch.terminator import STOPPERS, stop_containers
from sessions_app.models import ComputeSession

UUID_TEXT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


log = structlog.get_logger(__name__)


def ids_in(things: Iterable[ContainerState | LabelledObject], label: str) -> set[UUID]:
    """Return the ids in this label of engine objects; skips values that are no UUID."""
    texts = {thing.labels.get(label, "") for thing in things}
    return {UUID(text) for text in texts if UUID_TEXT.fullmatch(text)}


def stop_strays(states: Iterable[ContainerState], runtime: ContainerRuntime) -> set[str]:
    """Stop stray containers with the usual grace period; return the names left for the next round.

    They kept running while their machine was lost. A container that the engine refuses to stop is
    left to `reap`. One round takes one grace period at most, because the machine's sessions are not
    checked meanwhile.
    """
    running = [state.name for state in states if state.status is ContainerStatus.RUNNING]
    now, later = running[:STOPPERS], running[STOPPERS:]
    try:
        stop_containers([(runtime, name) for name in now])
    except RuntimeUnavailable:
        raise
    except RuntimeFault as error:
        log.warning("reconcile.not_stopped", containers=now, error=str(error))
    return set(later)


def reap(state: ContainerState, agent: Agent, runtime: ContainerRuntime) -> None:
    """Remove the container of an ended session, with its network and home volume."""
    log.warning(
        "reconcile.reaped", container=state.name, session_id=state.labels.get(container_spec.SESSION_LABEL)
    )
    try:
        runtime.remove_container(state.name)
        kernel_id, attempt = (
            UUID(state.labels[container_spec.KERNEL_LABEL]),
            int(state.labels[container_spec.ATTEMPT_LABEL]),
        )
        runtime.remove_volume(container_spec.home_volume_name(kernel_id, attempt))
        session_id = UUID(state.labels[container_spec.SESSION_LABEL])
        if (
            not ComputeSession.objects.live().filter(pk=session_id).exists()
        ):  # else it is retried, possibly on this machine
            if state.labels.get(container_spec.ACROSS_LABEL):
                cluster_network.leave_machine(session_id, agent)
            remove_session_network(session_id, agent, runtime)
    except (RuntimeFault, KeyError, ValueError) as error:  # labels set by other programs
        log.warning("reconcile.leftover", container=state.name, error=str(error))


def reap_leftovers(agent: Agent, runtime: ContainerRuntime) -> None:
    """Remove networks and home volumes of ended sessions, and pooled networks without a row.

    A crash between two removals leaves them.
    """
    labels = {container_spec.INSTALLATION_LABEL: settings.BERTH_INSTALLATION}
    networks, volumes = runtime.list_networks(labels), runtime.list_volumes(labels)
    require_own_engine(agent, runtime)
    named = ids_in([*networks, *volumes], container_spec.SESSION_LABEL)
    ended = set(ComputeSession.objects.ended().filter(pk__in=named).values_list("pk", flat=True))
    adrift = reap_pool(
        agent, (each.name for each in networks if container_spec.POOLED_NETWORK_LABEL in each.labels)
    )
    for thing, remove in [
        *((network, runtime.remove_network) for network in networks),
        *((volume, runtime.remove_volume) for volume in volumes),
    ]:
        if ids_in([thing], container_spec.SESSION_LABEL) & ended or thing.name in adrift:
            try:
                remove(thing.name)
            except RuntimeFault as error:
                log.warning("reconcile.leftover", name=thing.name, agent=agent.name, error=str(error))
