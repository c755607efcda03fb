"""Storage backend: subvolumes of a btrfs file system, with quota groups and snapshots."""

import os
from contextlib import suppress
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from vfolders.core.paths import ROOT as FOLDER_ROOT
from vfolders.core.paths import UNLISTED
from vfolders.storage import descriptors, mounts
from vfolders.storage.backends.directories import DirectoryStorage
from vfolders.storage.backends.local import ROOT, root_of
from vfolders.storage.base import Capability, StorageUnavailable
from vfolders.storage.commands import CommandFailed, Commands
from vfolders.storage.descriptors import Owner, closing, open_directory
from vfolders.storage.files import translated
from vfolders.storage.kinds import PATH, HostKind, HostSettings, Input, Setting

GIB = 2**30


class BtrfsStorage(DirectoryStorage):
    """Subvolumes `<root>/<folder id>`. `device`, a disk or an image, is mounted at the root; without one the
    root is on a btrfs file system already. A missing image of `image_bytes` is made by `prepare`.
    """

    capabilities = frozenset({Capability.QUOTA, Capability.USAGE, Capability.CLONE})

    def __init__(
        self, root: str, owner: Owner, commands: Commands, *, device: str = "", image_bytes: int = 0
    ) -> None:
        super().__init__(root, owner)
        self._commands, self._device, self._image_bytes = commands, device, image_bytes
        self.is_mounted_by_berth = bool(device)

    def prepare(self) -> None:
        if self._device and self._image_bytes and not os.path.exists(self._device):
            self._make_image()
        super().prepare()
        self._commands.run(["btrfs", "quota", "enable", self.root])
        with self.opened_root() as root:
            os.fchmod(root, 0o700)

    def _make_image(self) -> None:
        with translated(FOLDER_ROOT):
            os.makedirs(os.path.dirname(self._device), mode=0o700, exist_ok=True)
            made = f"{self._device}.new"
            with open(made, "wb") as image:
                image.truncate(self._image_bytes)
            self._commands.run(["mkfs.btrfs", "--quiet", "--force", made])
            os.rename(made, self._device)

    def attach(self) -> None:
        if not self._device:
            return
        is_image = os.path.isfile(self._device)
        options = f"{mounts.SAFE_OPTIONS},{'loop,' if is_image else ''}user_subvol_rm_allowed"
        command = ["mount", "-t", "btrfs", "-o", options, self._device, self.root]
        mounts.mount_once(self.root, command, self._commands)

    def detach(self) -> None:
        if self._device:
            mounts.unmount(self.root, self._commands)

    def lacks(self) -> tuple[str, ...]:
        missing = self._commands.lacking(["btrfs", *(["mkfs.btrfs"] if self._image_bytes else [])])
        if not missing and os.path.isdir(self.root) and not self._is_btrfs():
            return (str(_("{path} is not on a btrfs file system.")).format(path=self.root),)
        return missing

    def _is_btrfs(self) -> bool:
        return mounts.file_system_of(self.root).startswith("btrfs,") or bool(self._device)

    def create_folder(self, folder_id: UUID, *, quota_bytes: int | None = None) -> None:
        with self.opened_root() as root:
            self._check_mounted()
            if not _is_directory(root, folder_id.hex):
                self._commands.run(["btrfs", "subvolume", "create", self._path(folder_id)])
                self._adopt(root, folder_id)
                self.set_quota(folder_id, quota_bytes)

    def _adopt(self, root: int, folder_id: UUID) -> None:
        with translated(FOLDER_ROOT), closing(open_directory(root, folder_id.hex)) as folder:
            self.owner.adopt(folder, 0o755)

    def delete_folder(self, folder_id: UUID) -> None:
        with self.opened_root():
            self._check_mounted()
            if os.path.isdir(self._path(folder_id)) and not os.path.islink(self._path(folder_id)):
                # Fails if a session made subvolumes inside; then everything goes entry by entry.
                with suppress(CommandFailed):
                    self._commands.run(["btrfs", "subvolume", "delete", self._path(folder_id)])
        super().delete_folder(folder_id)

    def set_quota(self, folder_id: UUID, quota_bytes: int | None) -> None:
        limit = "none" if quota_bytes is None else str(quota_bytes)
        self._commands.run(["btrfs", "qgroup", "limit", limit, self._path(folder_id)])

    def used_bytes(self, folder_id: UUID) -> int | None:
        path = self._path(folder_id)
        if self._commands.run(["btrfs", "subvolume", "list", "-o", path]).strip():
            return None  # the owner has made subvolumes inside, which have quota groups of their own
        self._commands.run(["btrfs", "filesystem", "sync", path])
        shown = self._commands.run(["btrfs", "qgroup", "show", "--raw", "-f", path])
        # qgroupid referenced exclusive [path]; the line of the subvolume itself begins with level 0
        for line in shown.splitlines():
            words = line.split()
            if len(words) >= 3 and words[0].startswith("0/") and words[1].isdigit():
                return int(words[1])
        raise StorageUnavailable(str(_("The file system does not know the folder's size.")))

    def clone_folder(self, source_id: UUID, target_id: UUID) -> None:
        with self.opened_root() as root:
            self._check_mounted()
            if not _is_directory(root, target_id.hex):
                paths = [self._path(source_id), self._path(target_id)]
                self._commands.run(["btrfs", "subvolume", "snapshot", *paths])
        with self.opened(target_id) as folder:
            for name in UNLISTED:
                with suppress(FileNotFoundError):
                    descriptors.remove(folder, name)

    def _check_mounted(self) -> None:
        if self._device and not mounts.is_mounted(self.root):
            raise StorageUnavailable(str(_("The storage host is not mounted.")))

    def _open_folder(self, folder_id: UUID) -> int:
        self._check_mounted()
        return super()._open_folder(folder_id)

    def _path(self, folder_id: UUID) -> str:
        return os.path.join(self.root, folder_id.hex)


def _is_directory(parent: int, name: str) -> bool:
    try:
        with closing(open_directory(parent, name)):
            return True
    except OSError:
        return False


def _open(settings: HostSettings) -> BtrfsStorage:
    device = settings["device"]
    return BtrfsStorage(
        root_of(settings),
        settings.owner,
        settings.commands,
        device=os.path.join(settings.data_dir, device) if device else "",
        image_bytes=int(settings["image_gib"] or 0) * GIB,
    )


KIND = HostKind(
    name="btrfs",
    title="btrfs",
    summary=_("Subvolumes of a btrfs file system: quotas that the kernel enforces, copies without delay."),
    open=_open,
    settings=(
        ROOT,
        Setting(
            "device",
            _("Disk or image"),
            _("Mounted at the directory. Empty: the directory is on btrfs already."),
            pattern=rf"{PATH}|[A-Za-z0-9._][^\s,]*",
            example="/dev/sdb1",
            is_required=False,
        ),
        Setting(
            "image_gib",
            _("Size of a new image (GiB)"),
            _("If “Disk or image” names a file that does not exist, it is made with this size."),
            input=Input.NUMBER,
            is_required=False,
        ),
    ),
    capabilities=BtrfsStorage.capabilities,
    programs=("btrfs", "mkfs.btrfs"),
    needs="btrfs-progs; root",
)
