"""Mounts of directories in folders, safe against sessions that swap a directory for a link meanwhile.

An engine follows links when it mounts, and so would mount what a link names, on the machine. So the
mount is made before the session is started, held, and looked at: a helper without any right mounts the
directory as a volume, together with the whole folder. Where both have one file system and the inode is
that of the directory that the portal opened without following a link, it is that directory; and since
an engine mounts a volume only once, the session's container gets the mount that was looked at (ADR 78).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from django.conf import settings

from agents.machines.helper_containers import NO_IMAGE, helper_image, one_off_labels
from agents.models import Agent
from agents.runtime.port import (
    ContainerRuntime,
    ContainerStatus,
    HelperSpec,
    MountSpec,
    RuntimeUnavailable,
)
from common.errors import BerthError, NotFound, Unavailable
from images.selectors import built_image_ids
from sessions_app.core import container_spec
from sessions_app.core.container_spec import KernelPlan, MountRequest
from sessions_app.models import Kernel, SessionMount
from vfolders.core.mounts import FolderMount, directory_mount
from vfolders.core.paths import parse_path
from vfolders.selectors import files_of, folder_mount

TIMEOUT_S = 20
HELPER_LIFE_S = 600  # longer than STARTING may take, with all repeats and calls that the engine still does


class DirectorySwapped(NotFound):
    """The directory in the folder is gone, or a link is in its place."""


def mount_requests(session_mounts: Iterable[SessionMount], kernel: Kernel) -> list[MountRequest]:
    """Return how the kernel's machine mounts the folders of the session, in this order. Raises NotFound if
    one was deleted, StorageUnavailable.
    """
    return [_request(mount, kernel, number) for number, mount in enumerate(session_mounts)]


def _request(mount: SessionMount, kernel: Kernel, number: int) -> MountRequest:
    found = _whole(mount, kernel.placed_agent)
    if not mount.subpath:
        return MountRequest(found.source, mount.path, mount.is_readonly, found.options)
    name = container_spec.directory_volume_name(kernel.pk, kernel.attempt, number)
    options = directory_mount(found, parse_path(mount.subpath)).options
    return MountRequest(name, mount.path, mount.is_readonly, options)


def _whole(mount: SessionMount, agent: Agent) -> FolderMount:
    if mount.folder is None:
        raise NotFound(f"The folder “{mount.folder_name}” was deleted.")
    return folder_mount(mount.folder, is_portal_machine=agent.is_local or agent.is_simulated)


@contextmanager
def held_directories(kernel: Kernel, plan: KernelPlan, runtime: ContainerRuntime) -> Iterator[None]:
    """Hold the mounts of directories in folders for a container that starts in the block.

    Raises DirectorySwapped, Unavailable (the machine cannot look), RuntimeFault. A container that is not
    proven to have the right mounts is removed. After a crash or an engine's silence anywhere the helper
    goes on to hold the mounts: the engine may still start the container, and the next launch looks again.
    """
    pairs = [
        (mount, request)
        for mount, request in zip(kernel.session.mounts.all(), plan.mounts, strict=True)
        if mount.subpath
    ]
    agent = kernel.placed_agent
    if not pairs or agent.is_simulated or _is_recorded(kernel, runtime):
        yield
        return
    try:
        with ExitStack() as held:
            inodes = [held.enter_context(_held_directory(mount)) for mount, _request in pairs]
            for _mount, request in pairs:
                runtime.ensure_volume(
                    request.source, container_spec.kernel_labels(plan), options=request.options
                )
            spec = _helper(kernel, runtime, agent, pairs)
            helper = runtime.ensure_helper(spec)
            _look(runtime, spec, pairs, inodes)
            yield
    except DirectorySwapped:
        runtime.remove_container(kernel.container_name)
        raise
    now = runtime.inspect_container(spec.name)
    if now is None or (now.status, now.container_id) != (ContainerStatus.RUNNING, helper.container_id):
        runtime.remove_container(kernel.container_name)
        raise RuntimeUnavailable("The helper that held directories in folders ended before the start.")
    runtime.remove_container(spec.name)


def remove_directory_volumes(kernel: Kernel, runtime: ContainerRuntime) -> None:
    """Remove the helper and the volumes of directories in folders, not the directories. Call it when the
    kernel's container is removed. Raises RuntimeFault.
    """
    numbers = [number for number, mount in enumerate(kernel.session.mounts.all()) if mount.subpath]
    if numbers:
        runtime.remove_container(_helper_name(kernel))
    for number in numbers:
        runtime.remove_volume(container_spec.directory_volume_name(kernel.pk, kernel.attempt, number))


def _is_recorded(kernel: Kernel, runtime: ContainerRuntime) -> bool:
    """Return True if a launch completed the start of the present container, so its mounts are proven."""
    if not kernel.container_id:
        return False
    state = runtime.inspect_container(kernel.container_name)
    return state is not None and state.container_id == kernel.container_id


def _helper_name(kernel: Kernel) -> str:
    return f"berth-directories-{kernel.pk.hex}-{kernel.attempt}"


@contextmanager
def _held_directory(mount: SessionMount) -> Iterator[int]:
    """Yield the inode number of the directory as the portal finds it over no link."""
    if mount.folder is None:
        raise NotFound(f"The folder “{mount.folder_name}” was deleted.")
    with ExitStack() as opened:
        try:
            inode = opened.enter_context(files_of(mount.folder).held_directory(parse_path(mount.subpath)))
        except Unavailable:
            raise
        except BerthError as error:
            raise _swapped(mount) from error
        yield inode


def _helper(
    kernel: Kernel,
    runtime: ContainerRuntime,
    agent: Agent,
    pairs: Sequence[tuple[SessionMount, MountRequest]],
) -> HelperSpec:
    image_id = helper_image(runtime, built_image_ids())
    if image_id is None:
        raise Unavailable(f"A directory in a folder cannot be mounted on “{agent.name}”: {NO_IMAGE}.")
    mounts = []
    for number, (mount, request) in enumerate(pairs):
        whole = _whole(mount, agent)
        kind = "volume" if whole.options else "bind"
        mounts += [
            MountSpec(kind, f"/whole{number}", whole.source, is_readonly=True, options=whole.options),  # type: ignore[arg-type]
            MountSpec("volume", f"/part{number}", request.source, is_readonly=True, options=request.options),
        ]
    return HelperSpec(
        name=_helper_name(kernel),
        image=image_id,
        labels=one_off_labels("directories"),
        command=("sleep", str(HELPER_LIFE_S)),
        mounts=tuple(mounts),
        user=f"{settings.BERTH_CONTAINER_UID}:{settings.BERTH_CONTAINER_GID}",
    )


def _look(
    runtime: ContainerRuntime,
    spec: HelperSpec,
    pairs: Sequence[tuple[SessionMount, MountRequest]],
    inodes: Sequence[int],
) -> None:
    """Check that each volume is the directory of its inode, in the file system of its folder."""
    command = ("stat", "-c", "%d:%i", *(mount.target for mount in spec.mounts))
    answer = runtime.run_process(spec.name, command, timeout_s=TIMEOUT_S, output_limit=100 * len(spec.mounts))
    lines = answer.output.decode(errors="replace").split()
    if answer.exit_code or len(lines) != 2 * len(pairs):
        raise Unavailable("The machine could not look at the directories in folders.")
    for (mount, _request), inode, whole, part in zip(pairs, inodes, lines[::2], lines[1::2], strict=True):
        if part != f"{whole.partition(':')[0]}:{inode}":
            raise _swapped(mount)


def _swapped(mount: SessionMount) -> DirectorySwapped:
    return DirectorySwapped(
        f"“{mount.subpath}” in the folder “{mount.folder_name}” is gone, or a link is in its place."
    )
