"""Storage backend: WEKA, mounted by its own client or NFS; directory quotas by its REST API."""

import os
from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext_lazy as _

from vfolders.storage.backends.api_quota import (
    API,
    AUTHORITY,
    EXPORTED,
    PASSWORD,
    QUOTAS,
    USER,
    ApiQuotaStorage,
    NotThere,
    RestApi,
    open_api,
)
from vfolders.storage.kinds import WORD, HostKind, Setting


class WekaStorage(ApiQuotaStorage):
    """The API knows a directory by its inode."""

    def mount_command(self) -> Sequence[str]:
        if self.settings["client"] == "nfs":
            return super().mount_command()
        source = f"{self.settings['server']}/{self.settings['file_system']}"
        return ["mount", "-t", "wekafs", "-o", self.options(), source, self.root]

    def programs(self) -> tuple[str, ...]:
        return ("mount.nfs",) if self.settings["client"] == "nfs" else ("mount.wekafs",)

    def api(self) -> RestApi:
        api = open_api(self.settings, with_password=False)
        signed_in = {"username": self.settings["user"], "password": self.settings["password"]}
        token = api.call("POST", "/api/v2/login", signed_in)["data"]["access_token"]
        api.headers["Authorization"] = f"Bearer {token}"
        return api

    def write_limit(self, api: RestApi, name: str, limit_bytes: int | None) -> None:
        path = self._path(api, name)
        if path is None:
            return
        try:
            if limit_bytes is None:
                api.call("DELETE", path)
            else:
                api.call("PUT", path, {"hard_limit_bytes": limit_bytes, "grace_seconds": None})
        except NotThere:
            if limit_bytes is not None:
                raise

    def read_usage(self, api: RestApi, name: str) -> int | None:
        path = self._path(api, name)
        try:
            found: dict[str, Any] = api.call("GET", path)["data"] if path else {}
        except NotThere:
            return None
        return int(found["used_bytes"]) if "used_bytes" in found else None

    def _path(self, api: RestApi, name: str) -> str | None:
        systems = api.call("GET", "/api/v2/fileSystems")["data"]
        uid = next((each["uid"] for each in systems if each["name"] == self.settings["file_system"]), None)
        try:
            inode = os.stat(f"{self.root}/{name}", follow_symlinks=False).st_ino
        except OSError:
            return None
        return f"/api/v2/fileSystems/{uid}/directoryQuota/{inode}" if uid else None


KIND = HostKind(
    name="weka",
    title="WEKA",
    summary=_("A file system of WEKA; its API sets directory quotas."),
    open=WekaStorage,
    settings=(
        *EXPORTED,
        API,
        Setting("file_system", _("File system"), pattern=WORD, example="default"),
        Setting("client", _("Mounted by"), choices=("nfs", "wekafs"), default="wekafs", is_required=False),
        USER,
        PASSWORD,
        AUTHORITY,
    ),
    capabilities=QUOTAS,
    is_simulated=True,
    programs=("mount.wekafs",),
    needs=_("WEKA client, or nfs-common; root"),
)
