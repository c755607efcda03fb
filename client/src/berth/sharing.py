"""Sharing of folders: shares, invitations and public links."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from berth.addresses import segment
from berth.decoding import Record, decode, get_field
from berth.transport import Transport, new_key, parse_json


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFolder(Record):
    """The folder of an invitation."""

    id: str
    name: str
    owner: str | None = None
    project: str | None = None
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Record):
    """Right of a person or project to a folder: read, write or delete; in an invitation also owner."""

    id: str
    right: str
    person: str | None = None
    project: str | None = None
    is_open: bool = False
    inviter: str | None = None
    created_at: datetime | None = None
    answer_by: datetime | None = None
    accepted_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderInvitation(Record):
    """An invitation to you."""

    id: str
    right: str
    folder: SharedFolder
    inviter: str | None = None
    answer_by: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link(Record):
    """Public link to a file. `url` is set only when it was just created."""

    id: str
    path: str
    creator: str = ""
    expires_at: datetime | None = None
    max_downloads: int | None = None
    downloads: int = 0
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountingSession(Record):
    """Live session that mounts a folder to which its owner has no right any more."""

    id: str
    name: str
    owner: str
    is_readonly: bool
    status: str


class FolderSharing:
    """Sharing of one folder, as `folder.sharing`."""

    def __init__(self, transport: Transport, folder_id: str) -> None:
        self._transport = transport
        self._path = f"folders/{segment(folder_id)}/"

    def list(self) -> tuple[Share, ...]:
        """Return the shares and open invitations, oldest first."""
        return _many(Share, self._transport.get_json(f"{self._path}shares/"), "shares")

    def share(
        self,
        right: str,
        *,
        person: str = "",
        project: str = "",
        expires_at: str | None = None,
        answer_days: int = 14,
    ) -> Share:
        """Invite a person by e-mail address or name, or share with a project at once. The right `owner`
        offers to hand the folder over. `expires_at` is an ISO instant with a time zone.
        """
        body = {"right": right, "person": person, "project": project, "expires_at": expires_at}
        answer = self._transport.request(
            "POST", f"{self._path}shares/", json={**body, "answer_days": answer_days}, headers=new_key()
        )
        return decode(Share, parse_json(answer))

    def change(self, share_id: str, **changes: Any) -> Share:
        """Change `right` or `expires_at` (None: no end) of a share."""
        answer = self._transport.request("PATCH", f"{self._path}shares/{segment(share_id)}/", json=changes)
        return decode(Share, parse_json(answer))

    def revoke(self, share_id: str) -> None:
        """Take back a share, or withdraw an invitation."""
        self._transport.request("DELETE", f"{self._path}shares/{segment(share_id)}/")

    def leave(self) -> None:
        """Give back your own share."""
        self._transport.request("POST", f"{self._path}leave/")

    def sessions_without_right(self) -> tuple[MountingSession, ...]:
        """Return the live sessions that still mount the folder without a right."""
        path = f"{self._path}sessions-without-right/"
        return _many(MountingSession, self._transport.get_json(path), "sessions")

    def end_sessions(self, session_ids: tuple[str, ...]) -> int:
        """End those of these sessions that mount the folder without a right; return their number."""
        body = {"sessions": list(session_ids)}
        answer = self._transport.request("POST", f"{self._path}sessions-without-right/", json=body)
        return get_field(parse_json(answer), "ended", int)

    def links(self) -> tuple[Link, ...]:
        """Return the public links of the folder."""
        return _many(Link, self._transport.get_json(f"{self._path}links/"), "links")

    def create_link(self, path: str, *, days: int = 7, max_downloads: int | None = None) -> Link:
        """Create a public link to a file; its `url` is in this answer only."""
        body = {"path": path, "days": days, "max_downloads": max_downloads}
        return decode(Link, parse_json(self._transport.request("POST", f"{self._path}links/", json=body)))

    def revoke_link(self, link_id: str) -> None:
        self._transport.request("DELETE", f"{self._path}links/{segment(link_id)}/")


class FolderInvitations:
    """Invitations to you, as `client.folders.invitations`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> tuple[FolderInvitation, ...]:
        return _many(FolderInvitation, self._transport.get_json("folder-invitations/"), "invitations")

    def accept(self, invitation_id: str) -> SharedFolder:
        """Accept an invitation and return the folder."""
        answer = self._transport.request("POST", f"folder-invitations/{segment(invitation_id)}/accept/")
        return decode(SharedFolder, parse_json(answer))

    def decline(self, invitation_id: str) -> None:
        self._transport.request("POST", f"folder-invitations/{segment(invitation_id)}/decline/")


def _many(kind: type[Any], answer: object, name: str) -> tuple[Any, ...]:
    return tuple(decode(kind, each) for each in get_field(answer, name, list))
