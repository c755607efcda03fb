"""Storage backend: NetApp ONTAP, a qtree per folder with a tree quota, by its REST API.

A tree quota needs a qtree, which is a directory that the API makes and removes.
"""

from contextlib import suppress
from typing import Any
from uuid import UUID

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
from vfolders.storage.descriptors import closing, open_directory
from vfolders.storage.kinds import WORD, HostKind, Setting

WAIT = {"return_timeout": "60"}  # seconds that the server waits for its own job before it answers
QTREES, RULES, REPORTS = "/api/storage/qtrees", "/api/storage/quota/rules", "/api/storage/quota/reports"


class OntapStorage(ApiQuotaStorage):
    def api(self) -> RestApi:
        return open_api(self.settings)

    def create_folder(self, folder_id: UUID, *, quota_bytes: int | None = None) -> None:
        name = folder_id.hex
        with self.opened_root() as root:
            if not self._find(self.api(), QTREES, name=name):
                made = {**self._volume(), "name": name, "security_style": "unix", "unix_permissions": 755}
                self.api().call("POST", QTREES, made, WAIT)
            with closing(open_directory(root, name)) as folder:
                self.owner.adopt(folder, 0o755)
        if quota_bytes is not None:
            self.set_quota(folder_id, quota_bytes)

    def delete_folder(self, folder_id: UUID) -> None:
        super().delete_folder(folder_id)
        api = self.api()
        for qtree in self._find(api, QTREES, name=folder_id.hex):
            with suppress(NotThere):
                api.call("DELETE", f"{QTREES}/{qtree['volume']['uuid']}/{qtree['id']}", params=WAIT)

    def write_limit(self, api: RestApi, name: str, limit_bytes: int | None) -> None:
        rules = self._find(api, RULES, **{"qtree.name": name, "type": "tree"})
        if limit_bytes is None:
            for rule in rules:
                api.call("DELETE", f"{RULES}/{rule['uuid']}", params=WAIT)
        elif rules:
            api.call("PATCH", f"{RULES}/{rules[0]['uuid']}", {"space": {"hard_limit": limit_bytes}}, WAIT)
        else:
            rule = {
                **self._volume(),
                "type": "tree",
                "qtree": {"name": name},
                "space": {"hard_limit": limit_bytes},
            }
            api.call("POST", RULES, rule, WAIT)

    def read_usage(self, api: RestApi, name: str) -> int | None:
        query = {"qtree.name": name, "type": "tree", "fields": "space.used.total"}
        found = self._find(api, REPORTS, **query)
        return int(found[0]["space"]["used"]["total"]) if found else None

    def prepare(self) -> None:
        super().prepare()
        api = self.api()
        query = {"svm.name": self.settings["svm"], "name": self.settings["volume"]}
        for volume in api.call("GET", "/api/storage/volumes", params=query).get("records", []):
            enabled = {"quota": {"enabled": True}}
            api.call("PATCH", f"/api/storage/volumes/{volume['uuid']}", enabled, WAIT)

    def _volume(self) -> dict[str, Any]:
        return {"svm": {"name": self.settings["svm"]}, "volume": {"name": self.settings["volume"]}}

    def _find(self, api: RestApi, path: str, **query: str) -> list[dict[str, Any]]:
        params = {"svm.name": self.settings["svm"], "volume.name": self.settings["volume"], **query}
        records: list[dict[str, Any]] = api.call("GET", path, params=params).get("records", [])
        return records


KIND = HostKind(
    name="ontap",
    title="NetApp ONTAP",
    summary=_("A volume of NetApp ONTAP, exported by NFS: a qtree per folder, with a tree quota."),
    open=OntapStorage,
    settings=(
        *EXPORTED,
        API,
        Setting("svm", _("Storage VM"), pattern=WORD, example="svm1"),
        Setting("volume", _("Volume"), pattern=WORD, example="berth"),
        USER,
        PASSWORD,
        AUTHORITY,
    ),
    capabilities=QUOTAS,
    is_simulated=True,
    programs=("mount.nfs",),
    needs=_("nfs-common; no_root_squash; ONTAP 9.6 or newer; root"),
)
