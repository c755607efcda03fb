"""Ends a session on its agents: stops its containers, keeps their logs, releases its allocations."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.conf import settings

from agents.core.states import AgentState
from agents.machine_images.transfers import note_use
from agents.machines.observation import require_own_engine
from agents.models import Agent
from agents.runtime.port import ContainerRuntime, RuntimeFault, RuntimeUnavailable
from agents.selectors import runtime_of
from common import clock
from common.actors import SYSTEM
from common.db.advisory_locks import try_exclusive
from sessions_app.container_io import kept_logs
from sessions_app.core import container_spec
from sessions_app.core.states import Status
from sessions_app.dotfiles import delivery
from sessions_app.launch import cluster_network
from sessions_app.launch.device_shares import end_device_clients, release_shares
from sessions_app.launch.directory_mounts import remove_directory_volumes
from sessions_app.launch.launcher import log, work_lock
from sessions_app.launch.network_pool import remove_session_network
from sessions_app.models import ComputeSession, Kernel
from sessions_app.termination.retries import finish_or_retry

STOP_GRACE_S = 10
"""Seconds between the stop signal and the kill. Stated in the user guide."""

STOPPERS = 128
"""Maximum number of containers that one call stops in parallel."""


def end_session(session_id: UUID) -> None:
    """Remove a TERMINATING session's containers and networks, keep its logs, finish or retry it.

    If an engine does not answer, the session stays TERMINATING and the next run tries again. The
    engine of an agent that is lost for good is not called: the reconciler removes what is left there
    when it returns.
    """
    with try_exclusive(work_lock(session_id)) as is_mine:
        session = ComputeSession.objects.with_parts().filter(pk=session_id, status=Status.TERMINATING).first()
        if not is_mine or session is None:
            return
        placed = [(kernel, kernel.agent) for kernel in session.kernels.all() if kernel.agent is not None]
        if len(placed) > 1:
            placed = [(kernel, agent) for kernel, agent in placed if not is_lost_for_good(agent)]
        try:
            end_device_clients(session)
            stop_containers([(runtime_of(agent), kernel.container_name) for kernel, agent in placed])
            for kernel, agent in placed:
                end_kernel(kernel, agent)
            is_joined = cluster_network.is_across_machines(session)
            for agent in {agent for _kernel, agent in placed}:
                if is_joined:
                    remove_unless_refused(partial(cluster_network.leave_machine, session.pk, agent))
                remove_unless_refused(partial(remove_session_network, session.pk, agent, runtime_of(agent)))
        except RuntimeFault as error:
            log.warning("end.not_yet", session_id=str(session_id), error=str(error))
            return
        if is_joined:
            cluster_network.release_network(session.pk)
        finish_or_retry(session_id, actor=SYSTEM)


def lost_grace() -> timedelta:
    """Return the time after which the containers of a lost agent count as gone."""
    return timedelta(seconds=settings.BERTH_LOST_GRACE_S)


def is_lost_for_good(agent: Agent) -> bool:
    """Return True if nothing is expected of the agent any more: lost for `lost_grace`, or retired."""
    lost_since = clock.now() - lost_grace()
    return agent.state == AgentState.RETIRED or (
        agent.state == AgentState.LOST and agent.state_changed_at <= lost_since
    )


def stop_containers(containers: Collection[tuple[ContainerRuntime, str]]) -> None:
    """Stop the containers in parallel: up to STOPPERS at a time share one grace period.

    May be repeated: the main process forwards the stop signal once (`main_process`). Raises
    RuntimeFault after all of them.
    """
    if not containers:
        return
    with ThreadPoolExecutor(min(len(containers), STOPPERS), thread_name_prefix="stop") as pool:
        stops = [pool.submit(runtime.stop_container, name, STOP_GRACE_S) for runtime, name in containers]
    for stop in stops:
        stop.result()


def end_kernel(kernel: Kernel, agent: Agent) -> None:
    """Keep the log of a stopped container, then remove the container and its home volume.

    Raises RuntimeFault while it is not removed.
    """
    runtime = runtime_of(agent)
    state = runtime.inspect_container(kernel.container_name)
    if state is None:
        require_own_engine(agent, runtime)
    else:
        keep_log(kernel, runtime)
        runtime.remove_container(kernel.container_name)
        note_use(agent.pk, kernel.session.image_reference)
    remove_unless_refused(
        partial(runtime.remove_volume, container_spec.home_volume_name(kernel.pk, kernel.attempt))
    )
    remove_unless_refused(partial(remove_directory_volumes, kernel, runtime))
    remove_unless_refused(partial(release_shares, kernel))


def remove_unless_refused(remove: Callable[[], None]) -> None:
    """Remove an engine object; leave it for the reconciler if the engine refuses.

    The container is gone, so no allocation depends on it (example: a volume that a backup reads).
    Raises RuntimeUnavailable.
    """
    try:
        remove()
    except RuntimeUnavailable:
        raise
    except RuntimeFault as error:
        log.warning("end.leftover", error=str(error))


def keep_log(kernel: Kernel, runtime: ContainerRuntime) -> None:
    """Keep the log of the container; a log that the engine cannot read is skipped."""
    try:
        tail = runtime.read_log_tail(kernel.container_name, limit_bytes=container_spec.LOG_BYTES)
    except RuntimeUnavailable:
        raise
    except RuntimeFault as error:
        log.warning("end.log_lost", kernel_id=str(kernel.pk), error=str(error))
        return
    delivery.record_setup_at_end(kernel.session, tail.text)
    kept_logs.store_log(kernel, tail)
