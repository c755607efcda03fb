"""Storage backend: Dell PowerScale (OneFS), directory quotas by its Platform API."""

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

URL = "/platform/1/quota/quotas"


class OneFsStorage(ApiQuotaStorage):
    def api(self) -> RestApi:
        return open_api(self.settings)

    def write_limit(self, api: RestApi, name: str, limit_bytes: int | None) -> None:
        found = self._find(api, name)
        if limit_bytes is None:
            if found:
                api.call("DELETE", f"{URL}/{found['id']}")
        elif found:
            api.call("PUT", f"{URL}/{found['id']}", {"thresholds": {"hard": limit_bytes}})
        else:
            wanted = {
                "path": self.path_on_server(name),
                "type": "directory",
                "enforced": True,
                "container": True,
            }
            counted = {"include_snapshots": False, "thresholds_include_overhead": False}
            api.call("POST", URL, {**wanted, **counted, "thresholds": {"hard": limit_bytes}})

    def read_usage(self, api: RestApi, name: str) -> int | None:
        found = self._find(api, name)
        return int(found["usage"]["logical"]) if found else None

    def _find(self, api: RestApi, name: str) -> dict[str, Any] | None:
        found = api.call("GET", URL, params={"path": self.path_on_server(name), "type": "directory"})
        quotas: list[dict[str, Any]] = found.get("quotas", [])
        return quotas[0] if quotas else None


KIND = HostKind(
    name="onefs",
    title="PowerScale OneFS",
    summary=_("A directory of Dell PowerScale, exported by NFS; its API sets directory quotas."),
    open=OneFsStorage,
    settings=(*EXPORTED, API, USER, PASSWORD, AUTHORITY),
    capabilities=QUOTAS,
    is_simulated=True,
    programs=("mount.nfs",),
    needs="nfs-common; no_root_squash; SmartQuotas; root",
)
