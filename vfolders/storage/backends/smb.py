"""Storage backend: a share of SMB (Samba, Windows, Azure Files)."""

from collections.abc import Mapping, Sequence

from django.utils.translation import gettext_lazy as _

from vfolders.storage.backends.mounted import MOUNT_OPTIONS, MountedStorage
from vfolders.storage.backends.nfs import SERVER
from vfolders.storage.kinds import WORD, HostKind, Input, Setting


class SmbStorage(MountedStorage):
    """All files belong to the user of the containers, because the server knows no owners."""

    def programs(self) -> tuple[str, ...]:
        return ("mount.cifs",)

    def mount_command(self) -> Sequence[str]:
        source = f"//{self.settings['server']}/{self.settings['share']}"
        return ["mount", "-t", "cifs", "-o", self.options(*self._words()), source, self.root]

    def mount_environment(self) -> Mapping[str, str]:
        return {"PASSWD": self.settings["password"]}  # read by mount.cifs

    def agent_volume(self) -> tuple[dict[str, str], str] | None:
        words = [
            f"addr={self.settings['server']}",
            *self._words(),
            "password={secret}",
            self.settings["options"],
        ]
        device = f"//{self.settings['server']}/{self.settings['share']}"
        options = {"type": "cifs", "o": ",".join(filter(None, words)), "device": device}
        return options, self.settings["password"]

    def _words(self) -> list[str]:
        domain = [f"domain={self.settings['domain']}"] if self.settings["domain"] else []
        owner = [f"uid={self.owner.uid}", f"gid={self.owner.gid}", "file_mode=0644", "dir_mode=0755"]
        return [f"username={self.settings['user']}", *domain, *owner, "vers=3.1.1", "seal", "mfsymlinks"]


KIND = HostKind(
    name="smb",
    title=_("SMB"),
    summary=_("A share of Samba, Windows or Azure Files, encrypted on the way."),
    open=SmbStorage,
    settings=(
        SERVER,
        Setting("share", _("Share"), pattern=r"[A-Za-z0-9][^\s,]*", example="folders/berth"),
        Setting("user", _("User"), pattern=WORD, example="berth"),
        Setting("password", _("Password"), input=Input.SECRET, pattern=r"[^,]+"),
        Setting("domain", _("Domain"), pattern=WORD, example="EXAMPLE", is_required=False),
        MOUNT_OPTIONS,
    ),
    is_simulated=True,
    programs=("mount.cifs",),
    needs="cifs-utils; root",
)
