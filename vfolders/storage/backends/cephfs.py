"""Storage backend: a directory of CephFS, with quotas and sizes from attributes of directories."""

import os
from collections.abc import Sequence
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from vfolders.core.paths import ROOT
from vfolders.storage.backends.mounted import MOUNT_OPTIONS, MountedStorage
from vfolders.storage.base import Capability
from vfolders.storage.files import translated
from vfolders.storage.kinds import PATH, WORD, HostKind, Input, Setting
from vfolders.storage.secret_files import write_secret_file


class CephStorage(MountedStorage):
    """Mounted by ceph-fuse or by the kernel. The kernel enforces quotas at the client, within seconds."""

    capabilities = frozenset({Capability.QUOTA, Capability.USAGE})

    def programs(self) -> tuple[str, ...]:
        return ("ceph-fuse",) if self._is_fuse else ("mount.ceph",)

    @property
    def _is_fuse(self) -> bool:
        return self.settings["client"] == "fuse"

    def mount_command(self) -> Sequence[str]:
        user, path = self.settings["user"], self.settings["path"]
        if self._is_fuse:
            key = f"[client.{user}]\n\tkey = {self.settings['key']}\n"
            keyring = write_secret_file(f"{self.root}.keyring", key)
            words = ["--id", user, "--keyring", keyring, "-m", self.settings["monitors"], "-r", path]
            words += ["--conf", "/dev/null", "--client_quota=true", "-o", "allow_other,nosuid,nodev"]
            return ["ceph-fuse", *words, self.root]
        secret = write_secret_file(f"{self.root}.secret", self.settings["key"])
        options = self.options(f"name={user}", f"secretfile={secret}")
        return ["mount", "-t", "ceph", "-o", options, f"{self.settings['monitors']}:{path}", self.root]

    def agent_volume(self) -> tuple[dict[str, str], str] | None:
        words = [f"name={self.settings['user']}", "secret={secret}", self.settings["options"]]
        device = f"{self.settings['monitors']}:{self.settings['path']}"
        options = {"type": "ceph", "o": ",".join(filter(None, words)), "device": device}
        return options, self.settings["key"]

    def create_folder(self, folder_id: UUID, *, quota_bytes: int | None = None) -> None:
        super().create_folder(folder_id)
        if quota_bytes is not None:
            self.set_quota(folder_id, quota_bytes)

    def set_quota(self, folder_id: UUID, quota_bytes: int | None) -> None:
        with self.opened(folder_id) as folder, translated(ROOT):
            os.setxattr(folder, "ceph.quota.max_bytes", str(quota_bytes or 0).encode())

    def used_bytes(self, folder_id: UUID) -> int:
        with self.opened(folder_id) as folder, translated(ROOT):
            return int(os.getxattr(folder, "ceph.dir.rbytes"))


KIND = HostKind(
    name="cephfs",
    title=_("CephFS"),
    summary=_("A directory of CephFS: quotas, and sizes without counting."),
    open=CephStorage,
    settings=(
        Setting(
            "monitors",
            _("Monitors"),
            _("Addresses, joined by commas."),
            pattern=r"[A-Za-z0-9\[][A-Za-z0-9.:,\[\]-]*",
            example="10.0.0.5:6789,10.0.0.6:6789",
        ),
        Setting("path", _("Directory"), pattern=PATH, default="/", is_required=False, example="/berth"),
        Setting("user", _("User"), _("Without “client.”."), pattern=WORD, default="admin", is_required=False),
        Setting("key", _("Key"), input=Input.SECRET, pattern=r"[A-Za-z0-9+/]+=*"),
        Setting("client", _("Mounted by"), choices=("fuse", "kernel"), default="fuse", is_required=False),
        MOUNT_OPTIONS,
    ),
    capabilities=CephStorage.capabilities,
    programs=("ceph-fuse",),
    needs=_("ceph-fuse, or a kernel with CephFS; root"),
)
