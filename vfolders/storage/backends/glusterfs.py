"""Storage backend: a volume of GlusterFS, with quotas of directories."""

import os
from collections.abc import Sequence
from uuid import UUID
from xml.etree import ElementTree

from django.utils.translation import gettext_lazy as _

from vfolders.storage.backends.mounted import MOUNT_OPTIONS, MountedStorage
from vfolders.storage.backends.nfs import SERVER
from vfolders.storage.base import Capability, StorageUnavailable
from vfolders.storage.commands import CommandFailed
from vfolders.storage.kinds import WORD, HostKind, Setting


class GlusterStorage(MountedStorage):
    """Quotas are set by the program gluster, which must reach a server of the pool."""

    capabilities = frozenset({Capability.QUOTA, Capability.USAGE})

    def programs(self) -> tuple[str, ...]:
        return ("mount.glusterfs", "gluster")

    def mount_command(self) -> Sequence[str]:
        source = f"{self.settings['server']}:/{self.settings['volume']}"
        options = ",".join(filter(None, ["acl", self.settings["options"]]))
        return ["mount", "-t", "glusterfs", "-o", options, source, self.root]

    def prepare(self) -> None:
        super().prepare()
        volume = self.settings["volume"]
        try:
            self._gluster("volume", "quota", volume, "enable")
        except CommandFailed as error:
            if "already enabled" not in error.message:
                raise
        for name in ("soft-timeout", "hard-timeout"):  # else a writer exceeds its quota for minutes
            self._gluster("volume", "quota", volume, name, "0")

    def create_folder(self, folder_id: UUID, *, quota_bytes: int | None = None) -> None:
        super().create_folder(folder_id)
        if quota_bytes is not None:
            self.set_quota(folder_id, quota_bytes)

    def delete_folder(self, folder_id: UUID) -> None:
        if os.path.isdir(self.path_of(folder_id)):
            self.set_quota(folder_id, None)
        super().delete_folder(folder_id)

    def set_quota(self, folder_id: UUID, quota_bytes: int | None) -> None:
        volume, path = self.settings["volume"], f"/{folder_id.hex}"
        if quota_bytes is not None:
            self._gluster("volume", "quota", volume, "limit-usage", path, str(quota_bytes))
            return
        try:
            self._gluster("volume", "quota", volume, "remove", path)
        except CommandFailed as error:
            if "not set" not in error.message.lower():
                raise

    def used_bytes(self, folder_id: UUID) -> int:
        # A directory with a quota shows it as its own file system: used = size − free.
        volume, path = self.settings["volume"], f"/{folder_id.hex}"
        shown = self._gluster("--xml", "volume", "quota", volume, "list", path)
        used = ElementTree.fromstring(shown).findtext(".//limit/used_space")  # noqa: S314  of our own program
        if used is None or not used.isdigit():
            raise StorageUnavailable(str(_("The file system counts only folders with a quota.")))
        return int(used)

    def _gluster(self, *words: str) -> str:
        remote = f"--remote-host={self.settings['server']}"
        return self.commands.run(["gluster", "--mode=script", remote, *words])


KIND = HostKind(
    name="glusterfs",
    title=_("GlusterFS"),
    summary=_("A volume of GlusterFS with quotas of directories."),
    open=GlusterStorage,
    settings=(
        SERVER,
        Setting("volume", _("Volume"), pattern=WORD, example="folders"),
        MOUNT_OPTIONS,
    ),
    capabilities=GlusterStorage.capabilities,
    needs="glusterfs-client, glusterfs-cli; root",
)
