"""Storage backend: an ext4 image per folder, mounted through a loop device.

Images are `<root>/<folder id>.img`, sparse; they are mounted at `<root>/<folder id>`. The size of
the image is the quota. An image that is attached to a loop device already, because a container
still uses it, is mounted from that device and never a second time.
"""

import os
from contextlib import suppress
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from common.errors import Conflict
from vfolders.core.paths import ROOT as FOLDER_ROOT
from vfolders.storage import mounts
from vfolders.storage.backends.directories import DirectoryStorage
from vfolders.storage.backends.local import ROOT, root_of
from vfolders.storage.base import Capability, StorageUnavailable
from vfolders.storage.commands import CommandFailed, Commands
from vfolders.storage.descriptors import Owner, closing
from vfolders.storage.files import translated
from vfolders.storage.kinds import HostKind, HostSettings, Input, Setting

GIB = 2**30
LEAST_BYTES = 16 * 2**20


class LoopStorage(DirectoryStorage):
    """Images of `default_bytes`, unless a folder has a quota."""

    capabilities = frozenset({Capability.QUOTA, Capability.USAGE})

    is_mounted_by_berth = True

    def __init__(self, root: str, owner: Owner, commands: Commands, *, default_bytes: int) -> None:
        super().__init__(root, owner)
        self._commands, self._default_bytes = commands, default_bytes

    def lacks(self) -> tuple[str, ...]:
        return self._commands.lacking(["mkfs.ext4", "losetup", "e2fsck", "resize2fs"])

    def attach(self) -> None:
        """Mount every image. One that fails does not stop the others; the first error is raised."""
        first: StorageUnavailable | None = None
        for name in self._image_names():
            try:
                self._mount(UUID(name))
            except StorageUnavailable as error:
                first = first or error
        if first is not None:
            raise first

    def detach(self) -> None:
        for name in self._image_names():
            mounts.unmount(self._path(UUID(name)), self._commands)

    def _image_names(self) -> list[str]:
        with self.opened_root() as root:
            return [name[:32] for name in os.listdir(root) if name.endswith(".img") and len(name) == 36]

    def create_folder(self, folder_id: UUID, *, quota_bytes: int | None = None) -> None:
        with self.opened_root(), translated(FOLDER_ROOT):
            image, made = self._image(folder_id), f"{self._image(folder_id)}.new"
            if not os.path.exists(image):
                with open(made, "wb") as file:
                    file.truncate(self._size(quota_bytes))
                owner = f"root_owner={self.owner.uid}:{self.owner.gid}"
                self._commands.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-E", owner, made])
                os.rename(made, image)
            self._mount(folder_id)

    def _mount(self, folder_id: UUID) -> None:
        target, image = self._path(folder_id), self._image(folder_id)
        if mounts.is_mounted(target):
            return
        device = self._device(folder_id)
        options = f"{mounts.SAFE_OPTIONS}{'' if device else ',loop'}"
        command = ["mount", "-t", "ext4", "-o", options, device or image, target]
        mounts.mount_once(target, command, self._commands)
        with suppress(OSError):
            os.rmdir(os.path.join(target, "lost+found"))
        with translated(FOLDER_ROOT), closing(self._open_folder(folder_id)) as folder:
            self.owner.adopt(folder, 0o755)

    def _device(self, folder_id: UUID) -> str:
        """Return the loop device of the image, "" if it has none."""
        shown = self._commands.run(
            ["losetup", "--noheadings", "--output", "NAME", "-j", self._image(folder_id)]
        )
        return shown.split()[0] if shown.split() else ""

    def delete_folder(self, folder_id: UUID) -> None:
        with self.opened_root() as root, translated(FOLDER_ROOT):
            mounts.unmount(self._path(folder_id), self._commands)
            for name in (f"{folder_id.hex}.img", f"{folder_id.hex}.img.new", f"{folder_id.hex}.lock"):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=root)
            with suppress(FileNotFoundError):
                os.rmdir(folder_id.hex, dir_fd=root)

    def set_quota(self, folder_id: UUID, quota_bytes: int | None) -> None:
        """Resize the image: while it is mounted if the kernel can, else between two mounts. Raises Conflict if
        a session uses the folder then, StorageFull if its content is larger.
        """
        image, size = self._image(folder_id), self._size(quota_bytes)
        with translated(FOLDER_ROOT):
            present = os.path.getsize(image)
        if size == present or (size > present and self._grow(folder_id, size)):
            return
        mounts.unmount(self._path(folder_id), self._commands)
        try:
            if self._device(folder_id):
                raise Conflict(
                    str(
                        _(
                            "A session uses the folder, and this machine resizes it only while it is not in use."
                        )
                    ),
                    hint=str(_("Try again when the session has ended.")),
                    code="folder_in_use",
                )
            self._commands.run(["e2fsck", "-f", "-p", image], good_codes=(0, 1))
            if size > present:
                os.truncate(image, size)
            self._commands.run(["resize2fs", image, f"{size // 1024}K"])
            os.truncate(image, size)
        finally:
            self._mount(folder_id)

    def _grow(self, folder_id: UUID, size: int) -> bool:
        """Grow the mounted image; False if the kernel refuses (it needs CAP_SYS_RESOURCE)."""
        os.truncate(self._image(folder_id), size)
        device = self._device(folder_id)
        try:
            self._commands.run(["losetup", "--set-capacity", device])
            self._commands.run(["resize2fs", device])
        except CommandFailed:
            return False
        return True

    def used_bytes(self, folder_id: UUID) -> int:
        with self.opened(folder_id) as folder:
            status = os.fstatvfs(folder)
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    def _open_folder(self, folder_id: UUID) -> int:
        folder = super()._open_folder(folder_id)
        with self.opened_root() as root:
            if os.fstat(folder).st_dev != os.fstat(root).st_dev:
                return folder
        os.close(folder)
        raise StorageUnavailable(str(_("The image of the folder is not mounted.")))

    def _size(self, quota_bytes: int | None) -> int:
        return max(quota_bytes or self._default_bytes, LEAST_BYTES) // 4096 * 4096

    def _path(self, folder_id: UUID) -> str:
        return os.path.join(self.root, folder_id.hex)

    def _image(self, folder_id: UUID) -> str:
        return os.path.join(self.root, f"{folder_id.hex}.img")


def _open(settings: HostSettings) -> LoopStorage:
    size = int(settings["folder_gib"]) * GIB
    return LoopStorage(root_of(settings), settings.owner, settings.commands, default_bytes=size)


KIND = HostKind(
    name="loop",
    title=_("Image per folder"),
    summary=_("A sparse ext4 image per folder: a quota on any file system. On the portal's machine only."),
    open=_open,
    settings=(
        ROOT,
        Setting(
            "folder_gib",
            _("Size of a folder (GiB)"),
            _("Of folders without a quota of their own. An image takes only what is written."),
            input=Input.NUMBER,
            pattern="[1-9][0-9]{0,5}",
            default="10",
        ),
    ),
    capabilities=LoopStorage.capabilities,
    programs=("mkfs.ext4", "losetup", "e2fsck", "resize2fs"),
    needs="e2fsprogs, losetup; root",
)
