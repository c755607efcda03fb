"""Carries a placed session to RUNNING, and an ending one to its end, on the engine of its agent.

Every step may be repeated: names are deterministic and "already there" is success. A process that dies between two
steps leaves a status from which the next run goes on.
"""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from uuid import UUID

import structlog
from django.conf import settings

from accounts.logins.service import standing_memberships
from agents.machines.network_isolation import WallsMissing, require_walls
from agents.machines.observation import demand_own_engine
from agents.models import Agent
from agents.runtime.port import (
    ContainerRuntime,
    ContainerState,
    ContainerStatus,
    ImageMissing,
    ImagePullFailed,
    NetworkMissing,
    OutOfCapacity,
    RuntimeFault,
    RuntimeUnavailable,
)
from agents.selectors import runtime_of
from common.actors import SYSTEM
from common.db.advisory_locks import try_exclusive
from common.errors import BerthError, NotFound, PermissionDenied
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.values.stored_message import KeptSentence, one_line
from sessions_app import kept_logs, lifecycle, setups, specs
from sessions_app.lifecycle import IllegalTransition
from sessions_app.models import ComputeSession, Kernel, SessionMount
from sessions_app.moorings import mooring_of, remove_network_of, take_mooring
from sessions_app.pulls import PullReporter
from sessions_app.retries import finish_or_retry
from sessions_app.services import begin_termination, start_app
from sessions_app.states import LAUNCHING, REASON_SENTENCES, Reason, Status
from vfolders.selectors import mount_source

log = structlog.get_logger(__name__)

STOP_GRACE_S = 10
"""From the signal to stop until what still runs is killed. The user guide says so."""

STOPPERS = 128
"""So many containers at most are stopped at the same time by one call."""


def work_lock(session_id: UUID) -> str:
    """The subject of the lock that whoever works on this session's containers holds."""
    return f"session:{session_id}"


def launch_session(session_id: UUID) -> None:
    """Bring a SCHEDULED session to RUNNING, or to its end with the reason. Nothing happens if another worker is at it
    or the session has moved on; it stays in its stage while the engine does not answer."""
    failure: RuntimeFault | BerthError | None = None
    with try_exclusive(work_lock(session_id)) as is_mine:
        sessions = ComputeSession.objects.with_parts().prefetch_related("kernels__allocations")
        session = sessions.filter(pk=session_id, status__in=LAUNCHING).first()
        if not is_mine or session is None:
            return
        try:
            _launch(session)
        except RuntimeUnavailable as error:
            # An engine that restarts is back in seconds: reconcile tries again, until the deadline of the stage or
            # the loss of the machine ends it.
            log.warning("launch.waits", session_id=str(session_id), error=str(error))
        except (RuntimeFault, BerthError) as error:
            failure = error
    # Only now that the lock is free: what ends the session needs it.
    if failure is None or isinstance(failure, IllegalTransition):
        end_if_asked(session_id)
    else:
        _give_up(session_id, failure)


def end_if_asked(session_id: UUID) -> None:
    """Send TERMINATE_SESSION again if the session was stopped during its launch: the task that was sent then found the
    work lock taken. Call it once the lock is free."""
    if ComputeSession.objects.filter(pk=session_id, status=Status.TERMINATING).exists():
        enqueue_on_commit(TaskName.TERMINATE_SESSION, session_id=str(session_id))


class OwnerLeft(PermissionDenied):
    """Whoever asked for the session may not use its project any more."""


def _launch(session: ComputeSession) -> None:
    _demand_membership(session)
    if session.status == Status.SCHEDULED:  # later a container may be in a network of its own already
        for kernel in session.kernels.all():
            take_mooring(session.pk, kernel.placed_agent)
    lifecycle_to(session, Status.PREPARING, Reason.PREPARING)
    setup = setups.prepare_setup(session)
    plans = {
        kernel: plan_of(session, kernel, has_setup=setup is not None) for kernel in session.kernels.all()
    }
    for kernel, plan in plans.items():
        runtime = runtime_of(kernel.placed_agent)
        ensure_image(session, runtime)
        require_walls(kernel.placed_agent)
        if plan.mooring_id is None:
            runtime.ensure_network(specs.build_network_spec(plan))
        runtime.ensure_volume(specs.home_volume_name(kernel.pk, kernel.attempt), specs.kernel_labels(plan))

    lifecycle_to(session, Status.STARTING, Reason.IMAGE_READY)
    told = [kernel for kernel, plan in plans.items() if start_kernel(kernel, plan, setup and setup[1])]
    if setup is not None:
        setups.await_files(session, told, setup[0])

    lifecycle_to(session, Status.RUNNING, Reason.CONTAINERS_UP)
    start_own_apps(session)


def _demand_membership(session: ComputeSession) -> None:
    """A session can wait for long, and would mount the folders of a project that its owner has left. One query. Raises OwnerLeft."""
    if not standing_memberships([session.owner_id], [session.project_id]):
        raise OwnerLeft(f"{session.owner.email} is not a member of “{session.project.name}”.")


def start_kernel(kernel: Kernel, plan: specs.KernelPlan, archive: bytes | None) -> bool:
    """Its container runs, and whether it was told what to begin with."""
    runtime = runtime_of(kernel.placed_agent)
    state = runtime.ensure_container(specs.build_container_spec(plan))
    is_told = archive is not None
    if archive is not None and state.status is ContainerStatus.CREATED:
        is_told = setups.deliver_setup(kernel, runtime, archive)
    start_container(plan, runtime)
    note_container(kernel, runtime.inspect_container(kernel.container_name))
    return is_told


def start_container(plan: specs.KernelPlan, runtime: ContainerRuntime) -> None:
    """A network that was made ahead and that somebody has removed from the machine since is made once more."""
    name = specs.container_name(plan.kernel_id, plan.attempt)
    try:
        runtime.start_container(name)
    except NetworkMissing:
        runtime.ensure_network(specs.build_network_spec(plan))
        runtime.start_container(name)


def lifecycle_to(session: ComputeSession, to: Status, reason: Reason) -> None:
    """Forward to `to`, unless the session is there or further already: a repeated launch passes its old steps."""
    order = [*LAUNCHING, Status.RUNNING]
    current = Status(session.status)
    if current in order and order.index(current) >= order.index(to):
        return
    lifecycle.transition(session.pk, to=to, reason=reason, actor=SYSTEM)


def plan_of(session: ComputeSession, kernel: Kernel, *, has_setup: bool = False) -> specs.KernelPlan:
    """The values that decide how the kernel's container looks. Raises NotFound if a folder is gone."""
    mounts = session.mounts.all()
    return specs.KernelPlan(
        session_id=session.pk,
        kernel_id=kernel.pk,
        attempt=kernel.attempt,
        session_name=session.name,
        project=session.project.name,
        kernel_name=kernel.name,
        image=session.image_reference,
        command=session.command,
        slots=session.slots,
        cpuset=kernel.cpuset,
        shm_bytes=session.shm_bytes,
        environment=session.environment,
        mounts=[specs.MountRequest(source_of(mount), mount.path, mount.is_readonly) for mount in mounts],
        has_readonly_root=session.image.bears_readonly_root,
        has_setup=has_setup,
        mooring_id=mooring_of(session.pk, kernel.placed_agent),
        element=element_of(session),
        installation=settings.BERTH_INSTALLATION,
        uid=settings.BERTH_CONTAINER_UID,
        gid=settings.BERTH_CONTAINER_GID,
        network_pool=settings.BERTH_SESSION_POOL,
    )


def element_of(session: ComputeSession) -> specs.ArrayElement | None:
    if session.array is None or session.array_index is None:
        return None
    return specs.ArrayElement(session.array.pk, session.array_index, session.array.count)


def source_of(mount: SessionMount) -> str:
    """Where the folder of `mount` lies on the machine. Raises NotFound if it was deleted, Unavailable."""
    if mount.folder is None:
        raise NotFound(f"The folder “{mount.folder_name}” was deleted.")
    return mount_source(mount.folder)


def ensure_image(session: ComputeSession, runtime: ContainerRuntime) -> None:
    """The image is on the machine, pulled if need be; the pages hear of the progress once a second.

    One without a registry was built here: asked for it, an engine would run whatever somebody published at its default
    registry under the same name. Raises ImageMissing.
    """
    if runtime.inspect_image(session.image_reference) is not None:
        return
    if session.image.registry_id is None:
        raise ImageMissing(f"{session.image_reference} was built on another machine and has no registry.")
    runtime.pull_image(session.image_reference, on_progress=PullReporter(session))


def note_container(kernel: Kernel, state: ContainerState | None) -> None:
    """Remember where the container is reached."""
    if state is None:
        return
    kernel.container_id = state.container_id
    kernel.address = next(iter(state.addresses.values()), None) or None
    kernel.save(update_fields=["container_id", "address"])


def start_own_apps(session: ComputeSession) -> None:
    """Start the apps that the image wants up from the beginning, so that they answer when somebody opens them. One
    that does not start is no reason to end the session: opening it tries again."""
    if session.type != "interactive":
        return
    for app in session.image.app_hints:
        if app.autostart:
            try:
                start_app(session.pk, app.name)
            except BerthError as error:
                log.warning("app.not_started", session_id=str(session.pk), app=app.name, error=error.message)


def _give_up(session_id: UUID, error: RuntimeFault | BerthError) -> None:
    """End a session that could not be launched; one that was stopped meanwhile is ended for that reason."""
    reason = reason_of(error)
    log.warning("launch.failed", session_id=str(session_id), reason=reason, error=str(error))
    try:
        begin_termination(session_id, reason=reason, actor=SYSTEM, message=explain(reason, error))
    except IllegalTransition:
        end_if_asked(session_id)


def reason_of(error: RuntimeFault | BerthError) -> Reason:
    """The code for a launch that failed with `error`."""
    by_type = (
        (ImageMissing, Reason.IMAGE_MISSING),
        (ImagePullFailed, Reason.IMAGE_PULL_FAILED),
        (OutOfCapacity, Reason.NO_ROOM_ON_AGENT),
        (WallsMissing, Reason.WALLS_MISSING),
        (OwnerLeft, Reason.OWNER_LEFT),
        (RuntimeFault, Reason.ENGINE_REFUSED),
        (BerthError, Reason.FOLDER_UNAVAILABLE),
    )
    return next(reason for type_, reason in by_type if isinstance(error, type_))


def explain(reason: Reason, error: Exception) -> KeptSentence:
    """The sentence of `reason`, and what the engine said."""
    return replace(REASON_SENTENCES[reason], quote=one_line(error))


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
    leave_if_refused(partial(runtime.remove_volume, specs.home_volume_name(kernel.pk, kernel.attempt)))


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
        tail = runtime.read_log_tail(kernel.container_name, limit_bytes=specs.LOG_BYTES)
    except RuntimeUnavailable:
        raise
    except RuntimeFault as error:
        log.warning("end.log_lost", kernel_id=str(kernel.pk), error=str(error))
        return
    setups.note_setup_at_end(kernel.session, tail.text)
    kept_logs.keep_log(kernel, tail)
