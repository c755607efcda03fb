"""Storage backend: IBM Storage Scale (GPFS), a fileset per folder with a quota, by its REST API."""

from contextlib import suppress
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
    wait_for_job,
)
from vfolders.storage.descriptors import closing, open_directory
from vfolders.storage.kinds import WORD, HostKind, Setting

KIB = 1024


class ScaleStorage(ApiQuotaStorage):
    """A fileset is a directory that the API makes, links and removes, by jobs."""

    def api(self) -> RestApi:
        return open_api(self.settings)

    def create_folder(self, folder_id: UUID, *, quota_bytes: int | None = None) -> None:
        name, api = folder_id.hex, self.api()
        with self.opened_root() as root:
            try:
                api.call("GET", f"{self._url()}/filesets/{name}")
            except NotThere:
                wanted = {"filesetName": name, "path": self.path_on_server(name), "permissions": "755"}
                self._do(api, "POST", "filesets", {**wanted, "inodeSpace": "root"})
            with closing(open_directory(root, name)) as folder:
                self.owner.adopt(folder, 0o755)
        if quota_bytes is not None:
            self.set_quota(folder_id, quota_bytes)

    def delete_folder(self, folder_id: UUID) -> None:
        api = self.api()
        with self.opened_root():
            with suppress(NotThere):
                self._do(api, "DELETE", f"filesets/{folder_id.hex}/link?force=true")
            with suppress(NotThere):
                self._do(api, "DELETE", f"filesets/{folder_id.hex}?force=true")

    def write_limit(self, api: RestApi, name: str, limit_bytes: int | None) -> None:
        limit = str(-(-(limit_bytes or 0) // KIB))
        wanted = {"operationType": "setQuota", "quotaType": "fileset", "objectName": name}
        self._do(api, "POST", "quotas", {**wanted, "blockHardLimit": f"{limit}K"})

    def read_usage(self, api: RestApi, name: str) -> int | None:
        query = {"filter": f"quotaType=FILESET,objectName={name}"}
        found = api.call("GET", f"{self._url()}/quotas", params=query).get("quotas", [])
        return int(found[0]["blockUsage"]) * KIB if found else None

    def _url(self) -> str:
        return f"/scalemgmt/v2/filesystems/{self.settings['file_system']}"

    def _do(self, api: RestApi, method: str, path: str, body: dict[str, str] | None = None) -> None:
        job = api.call(method, f"{self._url()}/{path}", body)["jobs"][0]["jobId"]
        wait_for_job(
            api, f"/scalemgmt/v2/jobs/{int(job)}", "status", "COMPLETED", frozenset({"FAILED", "CANCELLED"})
        )


KIND = HostKind(
    name="scale",
    title="Storage Scale (GPFS)",
    summary=_("A file system of IBM Storage Scale, exported by NFS: a fileset per folder, with a quota."),
    open=ScaleStorage,
    settings=(
        *EXPORTED,
        API,
        Setting("file_system", _("File system"), pattern=WORD, example="gpfs0"),
        USER,
        PASSWORD,
        AUTHORITY,
    ),
    capabilities=QUOTAS,
    is_simulated=True,
    programs=("mount.nfs",),
    needs="nfs-common; no_root_squash; root",
)
