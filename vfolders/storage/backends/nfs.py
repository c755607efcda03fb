"""Storage backend: a directory exported by NFS, also Amazon EFS."""

from collections.abc import Sequence

from django.utils.translation import gettext_lazy as _

from vfolders.storage.backends.mounted import MOUNT_OPTIONS, MountedStorage
from vfolders.storage.kinds import HOST_NAME, PATH, HostKind, Setting

SERVER = Setting("server", _("Server"), pattern=HOST_NAME, example="nas.example.org")
EXPORT = Setting("export", _("Exported directory"), pattern=PATH, example="/export/folders")
NFS_VERSION = Setting(
    "version", _("Version of NFS"), choices=("4.2", "4.1", "4.0", "3"), default="4.2", is_required=False
)
# Soft: an error after 3 × 10 s instead of processes that wait for ever for a server that is gone.
WAIT = "soft,timeo=100,retrans=3"


class NfsStorage(MountedStorage):
    """The server keeps the owner of files, so it must not squash root on the portal's machine."""

    def programs(self) -> tuple[str, ...]:
        return ("mount.nfs",)

    def mount_command(self) -> Sequence[str]:
        source = f"{self.settings['server']}:{self.settings['export']}"
        options = self.options(f"vers={self.settings['version']}", WAIT)
        return ["mount", "-t", "nfs", "-o", options, source, self.root]

    def agent_volume(self) -> tuple[dict[str, str], str] | None:
        words = [f"addr={self.settings['server']}", f"vers={self.settings['version']}", WAIT]
        options = ",".join(filter(None, [*words, self.settings["options"]]))
        return {"type": "nfs", "o": options, "device": f":{self.settings['export']}"}, ""


KIND = HostKind(
    name="nfs",
    title=_("NFS"),
    summary=_("A directory exported by NFS, also Amazon EFS. Berth mounts it, and so do other machines."),
    open=NfsStorage,
    settings=(SERVER, EXPORT, NFS_VERSION, MOUNT_OPTIONS),
    is_simulated=True,
    programs=("mount.nfs",),
    needs="nfs-common; no_root_squash; root",
)
