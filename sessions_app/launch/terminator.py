"""End of a session: stop its containers, keep their logs, release its allocation."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID

from agents.machines.observation import demand_own_engine
from agents.models import Agent
from agents.runtime.port import (
    ContainerRuntime,
    RuntimeFault,
    RuntimeUnavailable,
)
from agents.selectors import runtime_of
from common.actors import SYSTEM
from common.db.advisory_locks import try_exclusive
from sessions_app.container_io import kept_logs
from sessions_app.core import container_spec
from sessions_app.core.states import Status
from sessions_app.dotfiles import delivery
from sessions_app.launch.launcher import log
from sessions_app.launch.network_pool import remove_network_of
from sessions_app.launch.work_lock import work_lock
from sessions_app.models import ComputeSession, Kernel
from sessions_app.termination.retries import finish_or_retry

STOP_GRACE_S = 10
"""From the signal to stop until what still runs is killed. The user guide says so."""

STOPPERS = 128
"""So many containers at most are stopped at the same time by one call."""


def end_session(session_id: UUID) -> None:
    """Remove what a TERMINATING session has on its agents, keep its logs, and finish it. If an engine does not answer
    it stays TERMINATING and the next run tries again."""
    with try_exclusive(work_lock(session_id)) as is_mine:
        session = ComputeSession.objects.with_parts().filter(pk=session_id, status=Status.TERMINATING).first()
        if not is_mine or session is None:
            return
        placed = [(kernel, kernel.agent) for kernel in session.kernels.all() if kernel.agent is not None]
        try:
            stop_together([(runtime_of(agent), kernel.container_name) for kernel, agent in placed])
            for kernel, agent in placed:
                end_kernel(kernel, agent)
            for agent in {agent for _kernel, agent in placed}:
                leave_if_refused(partial(remove_network_of, session.pk, agent, runtime_of(agent)))
        except RuntimeFault as error:
            log.warning("end.not_yet", session_id=str(session_id), error=str(error))
            return
        finish_or_retry(session_id, actor=SYSTEM)


def stop_together(containers: Collection[tuple[ContainerRuntime, str]]) -> None:
    """Stop these containers at the same time: all of a session's programs are told at once, and up to STOPPERS containers
    take one grace together. May be repeated: programs are told once (`main_process`). Raises RuntimeFault, after all of them."""
    if not containers:
        return
    with ThreadPoolExecutor(min(len(containers), STOPPERS), thread_name_prefix="stop") as pool:
        stops = [pool.submit(runtime.stop_container, name, STOP_GRACE_S) for runtime, name in containers]
    for stop in stops:
        stop.result()


def end_kernel(kernel: Kernel, agent: Agent) -> None:
    """Keep the log of one container that was stopped, remove it and its scratch home. Raises RuntimeFault while it is not
    gone."""
    runtime = runtime_of(agent)
    state = runtime.inspect_container(kernel.container_name)
    if state is None:
        demand_own_engine(agent, runtime)
    else:
        keep_log(kernel, runtime)
        runtime.remove_container(kernel.container_name)
    leave_if_refused(
        partial(runtime.remove_volume, container_spec.home_volume_name(kernel.pk, kernel.attempt))
    )


def leave_if_refused(remove: Callable[[], None]) -> None:
    """The container is gone, so nothing is held for what it leaves: what the engine refuses to remove now (a volume
    that a backup reads) the reconciler removes later. Raises RuntimeUnavailable."""
    try:
        remove()
    except RuntimeUnavailable:
        raise
    except RuntimeFault as error:
        log.warning("end.leftover", error=str(error))


def keep_log(kernel: Kernel, runtime: ContainerRuntime) -> None:
    """A log that the engine cannot read is no reason to keep the container."""
    try:
        tail = runtime.read_log_tail(kernel.container_name, limit_bytes=container_spec.LOG_BYTES)
    except RuntimeUnavailable:
        raise
    except RuntimeFault as error:
        log.warning("end.log_lost", kernel_id=str(kernel.pk), error=str(error))
        return
    delivery.note_setup_at_end(kernel.session, tail.text)
    kept_logs.keep_log(kernel, tail)
