"""Storage backend: Pure Storage FlashBlade, a directory of one file system, by its REST API 2.

FlashBlade has no quotas of directories; the API says how full the file system is.
"""

from typing import Any

from django.utils.translation import gettext_lazy as _

from vfolders.storage.backends.api_quota import API, AUTHORITY, EXPORTED, RestApi, open_api
from vfolders.storage.backends.nfs import NfsStorage
from vfolders.storage.base import Space, StorageUnavailable
from vfolders.storage.kinds import WORD, HostKind, Input, Setting

URL = "/api/2.0/file-systems"


class FlashBladeStorage(NfsStorage):
    def prepare(self) -> None:
        super().prepare()
        self.space()  # shows that address and token are right

    def space(self) -> Space:
        with self.opened_root():
            found: list[dict[str, Any]] = self._api().call(
                "GET", URL, params={"names": self.settings["file_system"]}
            )["items"]
        if not found:
            raise StorageUnavailable(str(_("The storage system does not know the file system.")))
        size, used = int(found[0]["provisioned"]), int(found[0]["space"]["virtual"])
        return Space(size, max(size - used, 0)) if size else super().space()

    def _api(self) -> RestApi:
        api = open_api(self.settings, with_password=False)
        api.headers["api-token"] = self.settings["token"]
        token = api.send("POST", "/api/login").headers.get("x-auth-token", "")
        del api.headers["api-token"]
        api.headers["x-auth-token"] = token
        return api


KIND = HostKind(
    name="flashblade",
    title="FlashBlade",
    summary=_("A file system of Pure Storage FlashBlade, exported by NFS. Berth counts sizes of folders."),
    open=FlashBladeStorage,
    settings=(
        *EXPORTED,
        API,
        Setting("file_system", _("File system"), pattern=WORD, example="berth"),
        Setting("token", _("API token"), input=Input.SECRET),
        AUTHORITY,
    ),
    is_simulated=True,
    programs=("mount.nfs",),
    needs="nfs-common; no_root_squash; root",
)
