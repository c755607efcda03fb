"""Storage backend: an ext4 image per folder, mounted through a loop device.

Images are `<root>/<folder id>.img`, sparse; they are mounted at `<root>/<folder id>`. The size of
the image is the quota. An image that is attached to a loop device already, because a container
still uses it, is mounted from that device and never a second time.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        if mounts.is_mounted(self._path(folder_id)):
            return
        with mounts.locked(self._path(folder_id)):
            if os.path.exists(self._image(folder_id)):  # it may have been deleted meanwhile
                self._mount_locked(folder_id)

    def _mount_locked(self, folder_id: UUID) -> None:
        target, image = self._path(folder_id), self._image(folder_id)
        device = self._device(folder_id)
        options = f"{mounts.SAFE_OPTIONS}{'' if device else ',loop'}"
        command = ["mount", "-t", "ext4", "-o", options, device or image, target]
        mounts.mount_locked(target, command, self._commands)
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
        with self.opened_root() as root, translated(FOLDER_ROOT), mounts.locked(self._path(folder_id)):
            mounts.unmount(self._path(folder_id), self._commands)
            for name in (f"{folder_id.hex}.img", f"{folder_id.hex}.img.new", f"{folder_id.hex}.lock"):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=root)
            with suppress(FileNotFoundError):
                os.rmdir(folder_id.hex, dir_fd=root)

    def set_quota(self, folder_id: UUID, quota_bytes: int | None) -> None:
        """Resize the image: while it is mounted if the kernel can, else between two mounts. Raises Conflict if
        a session uses the folder then, StorageUnavailable if its content is larger; a repetition tries again.
        """
        image, size = self._image(folder_id), self._size(quota_bytes)
        with translated(FOLDER_ROOT), mounts.locked(self._path(folder_id)):
            present = os.path.getsize(image)
            # A crash may have left a larger image; ext4 leaves out a last group that is too small.
            is_whole = self._file_system_bytes(self._device(folder_id) or image) >= present - present // 64
            if (size == present and is_whole) or (size >= present and self._grow(folder_id, size)):
                return
            mounts.unmount(self._path(folder_id), self._commands)
            try:
                self._resize_unmounted(folder_id, size)
            finally:
                self._mount_locked(folder_id)

    def _grow(self, folder_id: UUID, size: int) -> bool:
        """Grow the mounted image; False if the kernel refuses (it needs CAP_SYS_RESOURCE)."""
        device = self._device(folder_id)
        if not device:
            return False
        try:
            with self._resized(self._image(folder_id), size, device):
                self._commands.run(["losetup", "--set-capacity", device])
                self._commands.run(["resize2fs", device])
        except CommandFailed:
            return False
        return True

    def _resize_unmounted(self, folder_id: UUID, size: int) -> None:
        if self._device(folder_id):
            raise Conflict(
                str(_("A session uses the folder, and this machine resizes it only while it is not in use.")),
                hint=str(_("Try again when the session has ended.")),
                code="folder_in_use",
            )
        image = self._image(folder_id)
        self._commands.run(["e2fsck", "-f", "-p", image], good_codes=(0, 1))
        with self._resized(image, size, image):
            self._commands.run(["resize2fs", image, f"{size // 1024}K"])

    @contextmanager
    def _resized(self, image: str, size: int, shown_by: str) -> Iterator[None]:
        """Give the image this size: a larger one before the block, a smaller one after it. If the block fails,
        it is as large as before, or as its file system has become.
        """
        present = os.path.getsize(image)
        os.truncate(image, max(size, present))
        try:
            yield
        except BaseException:
            os.truncate(image, max(present, self._file_system_bytes(shown_by)))
            raise
        os.truncate(image, size)

    @staticmethod
    def _file_system_bytes(path: str) -> int:
        """Return the size that the ext4 in the image or device gives itself."""
        with open(path, "rb") as file:
            block = os.pread(file.fileno(), 1024, 1024)
        low, scale, high = (int.from_bytes(block[at : at + 4], "little") for at in (4, 24, 0x150))
        return (high << 32 | low) * (1024 << scale)

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
