"""Folders: storage that outlives sessions."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from berth.addresses import segment
from berth.decoding import Record, decode
from berth.errors import InvalidInput, NotFound
from berth.files import FolderFiles
from berth.models import Usage
from berth.paging import iterate
from berth.sharing import FolderInvitations, FolderSharing
from berth.storage_use import DirectoryReport
from berth.transport import Transport, new_key, parse_json


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderClone(Record):
    """Progress of a folder that is being copied. `error` says why copying stopped, "" while it goes on."""

    source_name: str = ""
    bytes_done: int = 0
    bytes_total: int = 0
    files_done: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder(Record):
    """A folder of a user or of a project. `state`: ready, cloning or trashed."""

    id: str
    name: str
    state: str = "ready"
    mode: str = "general"
    owner: str | None = None
    project: str | None = None
    domain: str = ""
    host: str = ""
    created_at: datetime | None = None
    size_bytes: int = 0
    measured_at: datetime | None = None
    is_size_whole: bool = True
    trashed_at: datetime | None = None
    expires_at: datetime | None = None
    clone: FolderClone | None = None
    file_count: int | None = None
    quota_bytes: int | None = None
    is_quota_fixed: bool = False
    used_at: datetime | None = None
    folders: "Folders" = field(repr=False, compare=False)

    @property
    def files(self) -> FolderFiles:
        return FolderFiles(self.folders.transport, self.id)

    @property
    def sharing(self) -> FolderSharing:
        return FolderSharing(self.folders.transport, self.id)

    def usage(self) -> Usage:
        """Return the size and number of files of the folder, counted now."""
        return decode(Usage, self.folders.transport.get_json(f"folders/{segment(self.id)}/usage/"))

    def directories(self, path: str = "") -> DirectoryReport:
        """Return what fills a directory of the folder, as counted last."""
        return decode(DirectoryReport, self.folders.transport.get_json(self._directories, path=path))

    def count_directories(self) -> DirectoryReport:
        """Have the directories counted again, in the background; `directories` tells when it is done."""
        return decode(DirectoryReport, parse_json(self.folders.transport.request("POST", self._directories)))

    def set_quota(self, quota_bytes: int | None) -> "Folder":
        """Set the largest size of the folder; None removes the quota. Returns the changed folder."""
        return self.folders.set_quota(self.id, quota_bytes)

    @property
    def _directories(self) -> str:
        return f"folders/{segment(self.id)}/usage/directories/"

    def delete(self) -> None:
        """Put the folder in the trash, from where `restore` brings it back until it expires; cancel a
        clone under way. Raises Refused while a live session mounts it.
        """
        self.folders.transport.request("DELETE", f"folders/{segment(self.id)}/")

    def change(self, *, name: str = "", mode: str = "") -> "Folder":
        """Rename the folder or change its mode; an empty value changes nothing."""
        body = {key: value for key, value in (("name", name), ("mode", mode)) if value}
        return self.folders._one(
            self.folders.transport.request("PATCH", f"folders/{segment(self.id)}/", json=body)
        )

    def copy_to(self, name: str, *, project: str = "", host: str = "", mode: str = "") -> "Folder":
        """Begin to copy the folder into a new one, which is `ready` when all is copied: see `reload`."""
        body = {"name": name, "project": project, "host": host} | ({"mode": mode} if mode else {})
        return self._post("clone/", body, new_key())

    def retry_copy(self) -> "Folder":
        """Begin to copy anew into this folder, whose clone stopped."""
        return self._post("clone/retry/", {})

    def restore(self, *, name: str = "") -> "Folder":
        """Take the folder out of the trash, under another name if `name` is given."""
        return self._post("restore/", {"name": name} if name else {})

    def purge(self) -> None:
        """Delete the folder, which is in the trash, for ever."""
        path = f"folders/{segment(self.id)}/purge/"
        self.folders.transport.request("POST", path, json={"name": self.name})

    def reload(self) -> "Folder":
        """Return the folder as it is now. Raises NotFound if it is gone."""
        return self.folders.get(self.id)

    def _post(self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> "Folder":
        path = f"folders/{segment(self.id)}/{path}"
        return self.folders._one(
            self.folders.transport.request("POST", path, json=body, headers=headers or {})
        )


class Folders:
    """Folders, as `client.folders`."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    @property
    def invitations(self) -> FolderInvitations:
        return FolderInvitations(self.transport)

    def list(self) -> Iterator[Folder]:
        """Yield the folders that the user may see, by name."""
        return iterate(self.transport, "folders/", Folder, given={"folders": self})

    def trash(self) -> Iterator[Folder]:
        """Yield the folders in the trash, the first to expire first."""
        return iterate(self.transport, "folders/trash/", Folder, given={"folders": self})

    def find_in_trash(self, text: str) -> Folder:
        """Find a folder in the trash by id or name. Raises NotFound, InvalidInput."""
        return _only([each for each in self.trash() if text in (each.id, each.name)], text)

    def get(self, folder_id: str) -> Folder:
        """Return the folder of this id. Raises NotFound."""
        return self._one(self.transport.request("GET", f"folders/{segment(folder_id)}/"))

    def find(self, text: str) -> Folder:
        """Find a folder by id or name. Raises NotFound, and InvalidInput if several have the name."""
        try:
            return self.get(str(uuid.UUID(text)))
        except ValueError:
            pass
        return _only([folder for folder in self.list() if folder.name == text], text)

    def create(self, name: str, *, project: str = "", host: str = "", mode: str = "general") -> Folder:
        """Create an empty folder: your own, or shared with a project."""
        body = {"name": name, "project": project, "host": host, "mode": mode}
        return self._one(self.transport.request("POST", "folders/", json=body, headers=new_key()))

    def administered(self, **filters: str) -> Iterator[Folder]:
        """Yield all folders that the user administers, the biggest first. Filters: owner, project, host,
        state.
        """
        return iterate(self.transport, "storage/folders/", Folder, given={"folders": self}, **filters)

    def set_quota(self, folder_id: str, quota_bytes: int | None) -> Folder:
        body = {"quota_bytes": quota_bytes}
        return self._one(self.transport.request("PUT", f"folders/{segment(folder_id)}/quota/", json=body))

    def _one(self, answer: Any) -> Folder:
        return decode(Folder, parse_json(answer), folders=self)


def _only(named: list[Folder], text: str) -> Folder:
    """Return the only folder. Raises NotFound, and InvalidInput if there are several."""
    if not named:
        raise NotFound(f"There is no folder “{text[:80]}”.", hint="Which there are: berth folder ls.")
    if len(named) > 1:
        ids = ", ".join(folder.id for folder in named)
        raise InvalidInput(f"Several folders are called “{text[:80]}”: {ids}.", hint="Use one of the ids.")
    return named[0]
