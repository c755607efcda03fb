"""Base of storage backends on an NFS export whose quotas the server's REST API sets."""

import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import requests
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from vfolders.storage.backends.mounted import MOUNT_OPTIONS
from vfolders.storage.backends.nfs import EXPORT, NFS_VERSION, SERVER, NfsStorage
from vfolders.storage.base import Capability, StorageUnavailable
from vfolders.storage.kinds import WORD, HostSettings, Input, Setting
from vfolders.storage.secret_files import write_secret_file

CONNECT_S, ANSWER_S, JOB_S = 5, 20, 60
MOST_BYTES, PIECE_BYTES = 2**20, 2**16
SHOWN = 200

API = Setting(
    "api",
    gettext_lazy("Address of its REST API"),
    pattern=r"https://[A-Za-z0-9\[][A-Za-z0-9.:_\[\]/-]*",
    example="https://nas.example.org:8080",
)
USER = Setting("user", gettext_lazy("User of the API"), pattern=WORD, example="berth")
PASSWORD = Setting("password", gettext_lazy("Password of the API"), input=Input.SECRET)
AUTHORITY = Setting(
    "authority",
    gettext_lazy("Certificate of its authority"),
    gettext_lazy("PEM. Empty: the authorities that this machine trusts."),
    input=Input.LINES,
    pattern=r"-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----",
    example="-----BEGIN CERTIFICATE-----…",
    is_required=False,
)
EXPORTED = (SERVER, EXPORT, NFS_VERSION, MOUNT_OPTIONS)
QUOTAS = frozenset({Capability.QUOTA, Capability.USAGE})


class NotThere(StorageUnavailable):
    """The API knows no such object."""


class RestApi:
    """A REST API over verified TLS, with deadlines; redirects are refused, so no password leaves the server."""

    def __init__(self, address: str, authority_file: str | None, auth: tuple[str, str] | None = None) -> None:
        self._address = address.rstrip("/")
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy and no .netrc of the machine
        self._session.verify = authority_file or True
        self._session.auth = auth
        self.headers = self._session.headers

    def call(
        self, method: str, path: str, json: Any = None, params: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the answer's object. Raises NotThere, StorageUnavailable."""
        answer = self.send(method, path, json, params)
        try:
            found = answer.json() if answer.content else {}
        except ValueError as error:
            raise StorageUnavailable(_("The storage system's API answered no JSON.")) from error
        return found if isinstance(found, dict) else {"records": found}

    def send(
        self, method: str, path: str, json: Any = None, params: Mapping[str, str] | None = None
    ) -> requests.Response:
        """Return the successful answer itself. Raises NotThere, StorageUnavailable."""
        try:
            answer = self._session.request(
                method,
                f"{self._address}{path}",
                json=json,
                params=params,
                timeout=(CONNECT_S, ANSWER_S),
                allow_redirects=False,
                stream=True,
            )
            # Read here, so that neither this process nor the sentence below takes more.
            content = b""
            for piece in answer.iter_content(PIECE_BYTES):
                content += piece
                if len(content) > MOST_BYTES:
                    answer.close()
                    raise StorageUnavailable(_("The storage system's API answered more than 1 MiB."))
            answer._content = content  # what `text` and `json` give
        except requests.RequestException as error:
            reason = type(error).__name__
            raise StorageUnavailable(
                _("The storage system's API does not answer: {reason}.").format(reason=reason)
            ) from error
        if answer.status_code == 404:
            raise NotThere(_("The storage system's API does not know {path}.").format(path=path[:SHOWN]))
        if not answer.ok or answer.is_redirect:
            text = " ".join(answer.text[:SHOWN].split())
            raise StorageUnavailable(
                _("The storage system's API refused: {code} {text}").format(
                    code=answer.status_code, text=text
                )
            )
        return answer


class ApiQuotaStorage(NfsStorage):
    """Folders below an NFS export; `write_limit` and `read_usage` speak to the API."""

    capabilities = QUOTAS

    def create_folder(self, folder_id: UUID, *, quota_bytes: int | None = None) -> None:
        super().create_folder(folder_id)
        if quota_bytes is not None:
            self.set_quota(folder_id, quota_bytes)

    def delete_folder(self, folder_id: UUID) -> None:
        with self.opened_root():
            self.write_limit(self.api(), folder_id.hex, None)
        super().delete_folder(folder_id)

    def set_quota(self, folder_id: UUID, quota_bytes: int | None) -> None:
        with self.opened(folder_id):
            self.write_limit(self.api(), folder_id.hex, quota_bytes)

    def used_bytes(self, folder_id: UUID) -> int | None:
        return self.read_usage(self.api(), folder_id.hex)

    def prepare(self) -> None:
        super().prepare()
        self.read_usage(self.api(), "berth-probe")  # shows that address and password are right

    @abstractmethod
    def api(self) -> RestApi:
        """Return the API, signed in."""

    @abstractmethod
    def write_limit(self, api: RestApi, name: str, limit_bytes: int | None) -> None:
        """Set the hard limit of the directory `name` below the export, None to remove it. Idempotent."""

    @abstractmethod
    def read_usage(self, api: RestApi, name: str) -> int | None:
        """Return the bytes that the directory uses; None without a quota."""

    def path_on_server(self, name: str) -> str:
        """Return the path of the directory as the server knows it."""
        return f"{self.settings['export'].rstrip('/')}/{name}"


def open_api(settings: HostSettings, *, with_password: bool = True) -> RestApi:
    """Return the API of the settings API, USER, PASSWORD and AUTHORITY."""
    authority = settings["authority"]
    file = write_secret_file(f"{settings.mount_point}.ca.pem", authority) if authority else None
    auth = (settings["user"], settings["password"]) if with_password else None
    return RestApi(settings["api"], file, auth)


def wait_for_job(api: RestApi, path: str, field: str, done: str, failed: frozenset[str]) -> None:
    """Wait until `field` of the job at `path` is `done`. Raises StorageUnavailable."""
    ends_at = time.monotonic() + JOB_S
    while time.monotonic() < ends_at:
        found = api.call("GET", path)
        job = found.get("jobs", [found])[0]
        if job.get(field) == done:
            return
        if job.get(field) in failed:
            raise StorageUnavailable(
                _("The storage system could not do it: {error}").format(error=str(job)[:SHOWN])
            )
        time.sleep(0.2)
    raise StorageUnavailable(_("The storage system took longer than {seconds} s.").format(seconds=JOB_S))
