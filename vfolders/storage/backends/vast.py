"""Storage backend: VAST Data, quotas of paths by its REST API (VMS)."""

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
    RestApi,
    open_api,
)
from vfolders.storage.kinds import HostKind

URL = "/api/quotas/"


class VastStorage(ApiQuotaStorage):
    def api(self) -> RestApi:
        return open_api(self.settings)

    def write_limit(self, api: RestApi, name: str, limit_bytes: int | None) -> None:
        found = self._find(api, name)
        if limit_bytes is None:
            if found:
                api.call("DELETE", f"{URL}{found['id']}/")
        elif found:
            api.call("PATCH", f"{URL}{found['id']}/", {"hard_limit": limit_bytes})
        else:
            wanted = {"name": f"berth-{name}", "path": self.path_on_server(name), "create_dir": False}
            api.call("POST", URL, {**wanted, "hard_limit": limit_bytes})

    def read_usage(self, api: RestApi, name: str) -> int | None:
        found = self._find(api, name)
        return int(found["used_capacity"]) if found else None

    def _find(self, api: RestApi, name: str) -> dict[str, Any] | None:
        path = self.path_on_server(name)
        found: list[dict[str, Any]] = api.call("GET", URL, params={"path": path}).get("records", [])
        return next((each for each in found if each["path"] == path), None)


KIND = HostKind(
    name="vast",
    title="VAST Data",
    summary=_("A view of VAST Data, exported by NFS; its API sets quotas of paths."),
    open=VastStorage,
    settings=(*EXPORTED, API, USER, PASSWORD, AUTHORITY),
    capabilities=QUOTAS,
    is_simulated=True,
    programs=("mount.nfs",),
    needs="nfs-common; no_root_squash; root",
)
