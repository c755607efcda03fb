"""Starts the containers of a placed session on its agent, up to RUNNING.

Every step may be repeated: names are deterministic, and "already exists" is success. A process that
dies between two steps leaves a status from which the next run continues.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from uuid import UUID

import structlog
from django.conf import settings

from accounts.logins.service import active_memberships
from agents.accelerators.grant import join_grants
from agents.machines.grants import DevicePart, group_runtime
from agents.machines.network_isolation import IsolationMissing, require_isolation
from agents.runtime.port import (
    ContainerRuntime,
    ContainerState,
    ContainerStatus,
    DeviceUnavailable,
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
from common.errors import BerthError, PermissionDenied
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.values.stored_message import StoredMessage, one_line
from sessions_app.app_services.start import start_app
from sessions_app.core import container_spec
from sessions_app.core.states import LAUNCHING, REASON_SENTENCES, Reason, Status
from sessions_app.dotfiles import delivery
from sessions_app.launch import (
    cluster_files,
    cluster_network,
    device_shares,
    devices,
    directory_mounts,
    image_pull,
)
from sessions_app.launch.device_shares import IsolationTooWeak
from sessions_app.launch.network_pool import assign_pooled_network, find_pooled_network
from sessions_app.lifecycle import transitions
from sessions_app.lifecycle.transitions import IllegalTransition
from sessions_app.models import ComputeSession, Kernel
from sessions_app.storage_reach.service import doubt_reach, without_secrets
from sessions_app.termination.service import begin_termination
from vfolders.core.permissions import Action as MountAction
from vfolders.selectors import mount_actions

log = structlog.get_logger(__name__)


def work_lock(session_id: UUID) -> str:
    """Return the name of the lock under which one worker launches or ends the session."""
    return f"session:{session_id}"


def launch_session(session_id: UUID) -> None:
    """Bring a SCHEDULED session to RUNNING, or terminate it with the reason of the failure.

    Does nothing if another worker has the session's lock or the session has moved on. While the
    engine does not answer, or the image is on its way to the machine, the session stays in its status.
    """
    failure: RuntimeFault | BerthError | None = None
    with try_exclusive(work_lock(session_id)) as is_mine:
        sessions = ComputeSession.objects.with_parts().prefetch_related("kernels__allocations")
        session = sessions.filter(pk=session_id, status__in=LAUNCHING).first()
        if not is_mine or session is None:
            return
        try:
            _launch(session)
        except RuntimeUnavailable as error:
            # A restarting engine is back in seconds: the reconciler tries again, until the deadline
            # of the status or the loss of the agent ends the session.
            log.warning("launch.waits", session_id=str(session_id), error=str(error))
        except (RuntimeFault, BerthError) as error:
            failure = error
    # Only after the lock is released, because ending the session needs it.
    if failure is None or isinstance(failure, IllegalTransition):
        resume_termination(session_id)
    else:
        _give_up(session_id, failure)


def resume_termination(session_id: UUID) -> None:
    """Send TERMINATE_SESSION again if the session was stopped during its launch.

    The first task found the work lock taken. Call it after the lock is released.
    """
    if ComputeSession.objects.filter(pk=session_id, status=Status.TERMINATING).exists():
        enqueue_on_commit(TaskName.TERMINATE_SESSION, session_id=str(session_id))


class OwnerLeft(PermissionDenied):
    """The owner of the session may no longer use its project."""


class FolderRevoked(PermissionDenied):
    """The owner of the session may no longer mount one of its folders."""


def _launch(session: ComputeSession) -> None:
    _require_membership(session)
    # Later, a container may already be in the session's own network; several need one of their size.
    if session.status == Status.SCHEDULED and session.kernel_count == 1:
        assign_pooled_network(session.pk, session.kernels.all()[0].placed_agent)
    advance_status(session, Status.PREPARING, Reason.PREPARING)
    if session.status != Status.STARTING and not image_pull.are_images_there(session):
        return  # launched again when they are
    _require_folders(session)
    setup = delivery.prepare_setup(session)
    kernels = list(session.kernels.all())
    parts = devices.allocated_parts(kernels)
    for kernel in kernels:
        with _withholding(kernel, parts):
            if devices.form_groups(kernel, parts.get(kernel.pk, ())):
                parts = devices.allocated_parts(kernels)
    addresses = cluster_network.cluster_addresses(session)
    plans, shared = {}, {}
    for kernel in kernels:
        own = parts.get(kernel.pk, ())
        with _withholding(kernel, parts):
            plan = build_kernel_plan(session, kernel, has_setup=setup is not None, parts=own)
            plan = replace(plan, addresses=addresses.get(kernel.pk))
        shared[kernel] = device_shares.shares_of(session, kernel, own, container_spec.kernel_labels(plan))
        device_shares.end_idle_daemons(kernel, own, shared[kernel])
        plans[kernel] = replace(
            plan, grant=join_grants(plan.grant, device_shares.prepare_shares(shared[kernel]))
        )
    for kernel, plan in plans.items():
        runtime = runtime_of(kernel.placed_agent)
        require_isolation(kernel.placed_agent)
        if plan.pooled_network_id is None:
            runtime.ensure_network(container_spec.build_network_spec(plan))
        runtime.ensure_volume(
            container_spec.home_volume_name(kernel.pk, kernel.attempt), container_spec.kernel_labels(plan)
        )

    if addresses:
        cluster_network.join_machines(session)

    advance_status(session, Status.STARTING, Reason.IMAGE_READY)
    delivered = []
    for kernel, plan in plans.items():
        own = parts.get(kernel.pk, ())
        with _withholding(kernel, parts), devices.kept_grant(session, kernel, own, plan.grant) as grant:
            if start_kernel(kernel, replace(plan, grant=grant), setup and setup[1]):
                delivered.append(kernel)
        device_shares.record_isolation(session, kernel, parts.get(kernel.pk, ()), shared[kernel])
    if setup is not None:
        delivery.await_files(session, delivered, setup[0])

    advance_status(session, Status.RUNNING, Reason.CONTAINERS_UP)
    start_own_apps(session)


@contextmanager
def _withholding(kernel: Kernel, parts: devices.PartsByKernel) -> Iterator[None]:
    """Withhold devices that the kernel's machine cannot give, so that no session gets them next."""
    try:
        yield
    except DeviceUnavailable as error:
        devices.withhold_after_failure(kernel, parts.get(kernel.pk, ()), error)
        raise


def build_kernel_plan(
    session: ComputeSession, kernel: Kernel, *, has_setup: bool = False, parts: Sequence[DevicePart] = ()
) -> container_spec.KernelPlan:
    """Return the plan of the kernel's container, with its devices `parts`. Raises NotFound if a folder was
    deleted, DeviceUnavailable.
    """
    mounts = session.mounts.all()
    return container_spec.KernelPlan(
        session_id=session.pk,
        kernel_id=kernel.pk,
        attempt=kernel.attempt,
        session_name=session.name,
        project=session.project.name,
        kernel_name=kernel.name,
        image=session.image_reference,
        command=session.command if kernel.is_main else kernel.command,
        slots=kernel.slots,
        cpuset=kernel.cpuset,
        shm_bytes=session.shm_bytes if kernel.shm_bytes is None else kernel.shm_bytes,
        environment=session.environment,
        mounts=directory_mounts.mount_requests(mounts, kernel),
        has_readonly_root=session.image.bears_readonly_root,
        has_setup=has_setup,
        pooled_network_id=find_pooled_network(session.pk, kernel.placed_agent),
        element=_array_element(session),
        runtime=group_runtime(kernel.placed_agent, session.resource_group, has_devices=bool(parts)),
        grant=devices.kernel_grant(session, kernel, parts),
        cluster=cluster_files.cluster_plan(session, kernel),
        installation=settings.BERTH_INSTALLATION,
        uid=settings.BERTH_CONTAINER_UID,
        gid=settings.BERTH_CONTAINER_GID,
        network_pool=settings.BERTH_SESSION_POOL,
    )


def _array_element(session: ComputeSession) -> container_spec.ArrayElement | None:
    if session.array is None or session.array_index is None:
        return None
    return container_spec.ArrayElement(session.array.pk, session.array_index, session.array.count)


def _require_membership(session: ComputeSession) -> None:
    """Raise OwnerLeft if the owner has left the project, whose folders would be mounted. One query."""
    if not active_memberships([session.owner_id], [session.project_id]):
        raise OwnerLeft(f"{session.owner.email} is not a member of “{session.project.name}”.")


def _require_folders(session: ComputeSession) -> None:
    """Raise FolderRevoked if the owner may not mount one of the folders any more. Two queries, none
    without mounts. A folder that was deleted is reported when it is mounted.
    """
    mounts = [(mount.folder, mount.is_readonly) for mount in session.mounts.all() if mount.folder is not None]
    rights = mount_actions({(session.owner_id, folder) for folder, _ in mounts}) if mounts else {}
    for folder, is_readonly in mounts:
        action = MountAction.MOUNT_READONLY if is_readonly else MountAction.MOUNT
        if action not in rights[session.owner_id, folder]:
            raise FolderRevoked(f"{session.owner.email} may not mount “{folder.name}” any more.")


def start_kernel(kernel: Kernel, plan: container_spec.KernelPlan, archive: bytes | None) -> bool:
    """Start the kernel's container; return True if the home setup was delivered to it."""
    runtime = runtime_of(kernel.placed_agent)
    is_told = archive is not None
    with directory_mounts.held_directories(kernel, plan, runtime):
        state = runtime.ensure_container(container_spec.build_container_spec(plan))
        if plan.cluster is not None and state.status is ContainerStatus.CREATED:
            cluster_files.deliver(plan, runtime)
        if archive is not None and state.status is ContainerStatus.CREATED:
            is_told = delivery.deliver_setup(kernel, runtime, archive)
        start_container(plan, runtime)
    record_container(kernel, runtime.inspect_container(kernel.container_name))
    return is_told


def start_container(plan: container_spec.KernelPlan, runtime: ContainerRuntime) -> None:
    """Start the container; recreate its pooled network if that was removed from the machine."""
    name = container_spec.container_name(plan.kernel_id, plan.attempt)
    try:
        runtime.start_container(name)
    except NetworkMissing:
        runtime.ensure_network(container_spec.build_network_spec(plan))
        runtime.start_container(name)


def advance_status(session: ComputeSession, to: Status, reason: Reason) -> None:
    """Move the session to `to`, unless it is there or further, as in a repeated launch."""
    order = [*LAUNCHING, Status.RUNNING]
    current = Status(session.status)
    if current in order and order.index(current) >= order.index(to):
        return
    transitions.transition(session.pk, to=to, reason=reason, actor=SYSTEM)


def record_container(kernel: Kernel, state: ContainerState | None) -> None:
    """Save the container's id and network address."""
    if state is None:
        return
    kernel.container_id = state.container_id
    kernel.address = next(iter(state.addresses.values()), None) or None
    kernel.save(update_fields=["container_id", "address"])


def start_own_apps(session: ComputeSession) -> None:
    """Start the apps that the image marks as autostart, so that they answer when opened.

    An app that fails to start does not end the session: opening it tries again.
    """
    if session.type != "interactive":
        return
    for app in session.image.app_hints:
        if app.autostart:
            try:
                start_app(session.pk, app.name)
            except BerthError as error:
                log.warning("app.not_started", session_id=str(session.pk), app=app.name, error=error.message)


def _give_up(session_id: UUID, error: RuntimeFault | BerthError) -> None:
    """Terminate a session whose launch failed, or complete its stop if it was stopped meanwhile."""
    reason, text = failure_reason(error), without_secrets(str(error), session_id)
    log.warning("launch.failed", session_id=str(session_id), reason=reason, error=text)
    if reason in (Reason.ENGINE_REFUSED, Reason.FOLDER_UNAVAILABLE):
        doubt_reach(session_id)  # a folder that is gone from the machine is refused by its engine
    try:
        begin_termination(session_id, reason=reason, actor=SYSTEM, message=failure_message(reason, text))
    except IllegalTransition:
        resume_termination(session_id)


def failure_reason(error: RuntimeFault | BerthError) -> Reason:
    """Return the reason code of a launch that failed with `error`."""
    by_type = (
        (ImageMissing, Reason.IMAGE_MISSING),
        (ImagePullFailed, Reason.IMAGE_PULL_FAILED),
        (DeviceUnavailable, Reason.DEVICE_UNAVAILABLE),
        (IsolationTooWeak, Reason.ISOLATION_TOO_WEAK),
        (OutOfCapacity, Reason.NO_ROOM_ON_AGENT),
        (IsolationMissing, Reason.WALLS_MISSING),
        (OwnerLeft, Reason.OWNER_LEFT),
        (FolderRevoked, Reason.FOLDER_REVOKED),
        (RuntimeFault, Reason.ENGINE_REFUSED),
        (BerthError, Reason.FOLDER_UNAVAILABLE),
    )
    return next(reason for type_, reason in by_type if isinstance(error, type_))


def failure_message(reason: Reason, error: Exception | str) -> StoredMessage:
    """Return the sentence of `reason`, with the engine's error text as a quote."""
    return replace(REASON_SENTENCES[reason], quote=one_line(error))
