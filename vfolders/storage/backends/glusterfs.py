"""Storage backend: a volume of GlusterFS, with quotas of directories."""

import os
from collections.abc import Sequence
from uuid import UUID
from xml.etree import ElementTree

from django.utils.translation import gettext_lazy as _

from vfolders.storage.backends.mounted import MOUNT_OPTIONS, MountedStorage
from vfolders.storage.backends.nfs import SERVER
from vfolders.storage.base import Capability
from vfolders.storage.commands import CommandFailed
from vfolders.storage.kinds import WORD, HostKind, HostSettings, Setting

QUOTAS = frozenset({Capability.QUOTA, Capability.USAGE})


class GlusterStorage(MountedStorage):
    """Quotas are set by the program gluster. It changes a pool only on a machine of the pool: from others,
    servers accept questions alone.
    """

    def __init__(self, settings: HostSettings) -> None:
        super().__init__(settings)
        if settings["quota"] == "on":
            self.capabilities = QUOTAS

    def programs(self) -> tuple[str, ...]:
        return ("mount.glusterfs", *(["gluster"] if self.capabilities else []))

    def lacks(self) -> tuple[str, ...]:
        missing = super().lacks()
        volume = self.settings["volume"]
        if not missing and self.capabilities and volume not in self._gluster("volume", "list").split():
            sentence = _("This machine is not in the pool of the volume “{volume}”, so it can set no quotas.")
            return (str(sentence).format(volume=volume),)
        return missing

    def mount_command(self) -> Sequence[str]:
        source = f"{self.settings['server']}:/{self.settings['volume']}"
        return ["mount", "-t", "glusterfs", "-o", self.options("acl"), source, self.root]

    def prepare(self) -> None:
        super().prepare()
        if not self.capabilities:
            return
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
        if self.capabilities and os.path.isdir(self.path_of(folder_id)):
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
            if "No data available" not in error.message:  # there is none
                raise

    def used_bytes(self, folder_id: UUID) -> int | None:
        volume, path = self.settings["volume"], f"/{folder_id.hex}"
        try:
            shown = self._gluster("--xml", "volume", "quota", volume, "list", path)
        except CommandFailed as error:
            if "no quota configured" in error.message.lower():  # on no directory of the volume
                return None
            raise
        used = ElementTree.fromstring(shown).findtext(".//limit/used_space")  # noqa: S314  of our own program
        return int(used) if used is not None and used.isdigit() else None

    def _gluster(self, *words: str) -> str:
        return self.commands.run(["gluster", "--mode=script", *words])


KIND = HostKind(
    name="glusterfs",
    title=_("GlusterFS"),
    summary=_("A volume of GlusterFS with quotas of directories."),
    open=GlusterStorage,
    settings=(
        SERVER,
        Setting("volume", _("Volume"), pattern=WORD, example="folders"),
        Setting(
            "quota",
            _("Quotas of folders"),
            _("They need the portal's machine to be in the pool of the volume."),
            choices=("on", "off"),
            default="on",
            is_required=False,
        ),
        MOUNT_OPTIONS,
    ),
    capabilities=QUOTAS,
    programs=("mount.glusterfs", "gluster"),
    needs="glusterfs-client, glusterfs-cli; root",
)
