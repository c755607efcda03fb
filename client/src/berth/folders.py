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
from berth.transport import Transport, new_key, parse_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder(Record):
    """A folder of a user or of a project."""

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
    folders: "Folders" = field(repr=False, compare=False)

    @property
    def files(self) -> FolderFiles:
        return FolderFiles(self.folders.transport, self.id)

    def usage(self) -> Usage:
        """Return the size and number of files of the folder, counted now."""
        return decode(Usage, self.folders.transport.get_json(f"folders/{segment(self.id)}/usage/"))

    def delete(self) -> None:
        """Delete the folder with all its contents. Cannot be undone.

        Raises Refused while a live session mounts it.
        """
        self.folders.transport.request("DELETE", f"folders/{segment(self.id)}/")


class Folders:
    """Folders, as `client.folders`."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def list(self) -> Iterator[Folder]:
        """Yield the folders that the user may see, by name."""
        return iterate(self.transport, "folders/", Folder, given={"folders": self})

    def get(self, folder_id: str) -> Folder:
        """Return the folder of this id. Raises NotFound."""
        return self._one(self.transport.request("GET", f"folders/{segment(folder_id)}/"))

    def find(self, text: str) -> Folder:
        """Find a folder by id or name. Raises NotFound, and InvalidInput if several have the name."""
        try:
            return self.get(str(uuid.UUID(text)))
        except ValueError:
            pass
        named = [folder for folder in self.list() if folder.name == text]
        if not named:
            raise NotFound(f"There is no folder “{text[:80]}”.", hint="Which there are: berth folder ls.")
        if len(named) > 1:
            ids = ", ".join(folder.id for folder in named)
            raise InvalidInput(
                f"Several folders are called “{text[:80]}”: {ids}.", hint="Use one of the ids."
            )
        return named[0]

    def create(self, name: str, *, project: str = "", host: str = "") -> Folder:
        """Create an empty folder: your own, or shared with a project."""
        body = {"name": name, "project": project, "host": host}
        return self._one(self.transport.request("POST", "folders/", json=body, headers=new_key()))

    def _one(self, answer: Any) -> Folder:
        return decode(Folder, parse_json(answer), folders=self)
