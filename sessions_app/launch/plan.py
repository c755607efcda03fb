"""Builds the plan of a kernel's container from the rows of its session."""

from django.conf import settings

from common.errors import NotFound
from sessions_app.core import container_spec
from sessions_app.launch.network_pool import find_pooled_network
from sessions_app.models import ComputeSession, Kernel, SessionMount
from vfolders.selectors import mount_source


def build_kernel_plan(
    session: ComputeSession, kernel: Kernel, *, has_setup: bool = False
) -> container_spec.KernelPlan:
    """Return the plan of the kernel's container. Raises NotFound if a folder was deleted."""
    mounts = session.mounts.all()
    return container_spec.KernelPlan(
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
        mounts=[
            container_spec.MountRequest(_folder_path(mount), mount.path, mount.is_readonly)
            for mount in mounts
        ],
        has_readonly_root=session.image.bears_readonly_root,
        has_setup=has_setup,
        pooled_network_id=find_pooled_network(session.pk, kernel.placed_agent),
        element=_array_element(session),
        installation=settings.BERTH_INSTALLATION,
        uid=settings.BERTH_CONTAINER_UID,
        gid=settings.BERTH_CONTAINER_GID,
        network_pool=settings.BERTH_SESSION_POOL,
    )


def _array_element(session: ComputeSession) -> container_spec.ArrayElement | None:
    if session.array is None or session.array_index is None:
        return None
    return container_spec.ArrayElement(session.array.pk, session.array_index, session.array.count)


def _folder_path(mount: SessionMount) -> str:
    """Return the path of the mounted folder on the machine.

    Raises NotFound if deleted, Unavailable.
    """
    if mount.folder is None:
        raise NotFound(f"The folder “{mount.folder_name}” was deleted.")
    return mount_source(mount.folder)
