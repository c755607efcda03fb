"""Storage backend: HDFS, mounted by FUSE; quotas and sizes by WebHDFS (Hadoop 3.3 or newer)."""

from collections.abc import Sequence

from django.utils.translation import gettext_lazy as _

from vfolders.storage.backends.api_quota import (
    API,
    AUTHORITY,
    QUOTAS,
    USER,
    ApiQuotaStorage,
    NotThere,
    RestApi,
    open_api,
)
from vfolders.storage.backends.mounted import MOUNT_OPTIONS
from vfolders.storage.backends.nfs import SERVER
from vfolders.storage.kinds import PATH, HostKind, Input, Setting

NO_QUOTA = -1


class HdfsStorage(ApiQuotaStorage):
    """A quota counts all replicas, so it is the folder's limit times their number."""

    def programs(self) -> tuple[str, ...]:
        return ("hadoop-fuse-dfs",)

    def mount_command(self) -> Sequence[str]:
        words = (f"server={self.settings['server']}", f"port={self.settings['port']}", "allow_other", "rw")
        return ["hadoop-fuse-dfs", f"-o{self.options(*words)}", self.root]

    def agent_volume(self) -> tuple[dict[str, str], str] | None:
        return None

    def api(self) -> RestApi:
        return open_api(self.settings, with_password=False)

    def write_limit(self, api: RestApi, name: str, limit_bytes: int | None) -> None:
        copies = int(self.settings["replicas"])
        quota = NO_QUOTA if limit_bytes is None else limit_bytes * copies
        try:
            api.call("PUT", self._url(name), params=self._query("SETQUOTA", storagespacequota=str(quota)))
        except NotThere:
            if limit_bytes is not None:
                raise

    def read_usage(self, api: RestApi, name: str) -> int | None:
        try:
            found = api.call("GET", self._url(name), params=self._query("GETCONTENTSUMMARY"))
        except NotThere:
            return None
        return int(found["ContentSummary"]["length"])

    def _url(self, name: str) -> str:
        return f"/webhdfs/v1{self.path_on_server(name)}"

    def _query(self, operation: str, **more: str) -> dict[str, str]:
        return {"op": operation, "user.name": self.settings["user"], **more}


KIND = HostKind(
    name="hdfs",
    title="HDFS",
    summary=_("A directory of HDFS, mounted by FUSE. For large files that are written once."),
    open=HdfsStorage,
    settings=(
        SERVER,
        Setting("port", _("Port"), input=Input.NUMBER, default="8020", is_required=False),
        Setting("export", _("Directory"), pattern=PATH, default="/", is_required=False, example="/"),
        Setting(
            "replicas", _("Replicas"), input=Input.NUMBER, pattern="[1-9]", default="3", is_required=False
        ),
        API,
        USER,
        AUTHORITY,
        MOUNT_OPTIONS,
    ),
    capabilities=QUOTAS,
    is_simulated=True,
    programs=("hadoop-fuse-dfs",),
    needs=_("hadoop-hdfs-fuse; Hadoop 3.3 or newer; root"),
)
