"""Personal settings of a user: preferences, SSH public keys, dotfiles and the start-up script."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from berth.decoding import Record, get_field
from berth.paging import Endpoint, iterate
from berth.people import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKey(Record):
    id: int
    name: str
    key_type: str = ""
    fingerprint: str = ""
    public_key: str = ""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    last_used_ip: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dotfile(Record):
    """Dotfile. `content` is set only when one file was requested."""

    path: str
    mode: str = "0644"
    size_bytes: int = 0
    changed_at: datetime | None = None
    token_name: str = ""
    is_used: bool = True
    content: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences(Record):
    """Preferences of a user. `no_mail_because`: why no e-mail is sent; "" if it is sent."""

    language: str = ""
    muted_notifications: tuple[str, ...] = ()
    mailed_notifications: tuple[str, ...] = ()
    no_mail_because: str = ""


class OwnPreferences(Endpoint):
    """Language and notification settings, as `client.preferences`."""

    def get(self) -> Preferences:
        return self._get(Preferences, "me/preferences/")

    def change(self, **changes: Any) -> Preferences:
        """Change `language`, `muted_notifications` or `mailed_notifications`; others stay.

        Raises InvalidInput.
        """
        return self._send(Preferences, "PATCH", "me/preferences/", changes)


class SshKeys(Rows[SshKey]):
    """Your SSH public keys, as `client.ssh_keys`.

    `create(public_key=…, name=…)` adds a key, `delete` removes one.
    """

    kind, path, word, key = SshKey, "ssh-keys/", "ssh-key", "name"

    def _narrowed(self, text: str) -> dict[str, Any]:
        return {}


class Dotfiles(Endpoint):
    """Text files for the home directory of your new sessions, as `client.dotfiles`.

    Paths are relative to the home directory.
    """

    def list(self) -> Iterator[Dotfile]:
        return iterate(self._transport, "dotfiles/", Dotfile)

    def get(self, path: str) -> Dotfile:
        """Return the dotfile with its content. Raises NotFound."""
        return self._get(Dotfile, "dotfiles/file/", path=path)

    def put(self, path: str, content: str, *, mode: str = "0644") -> Dotfile:
        body = {"path": path, "content": content, "mode": mode}
        return self._send(Dotfile, "PUT", "dotfiles/file/", body)

    def remove(self, path: str) -> None:
        """Delete the dotfile. Raises NotFound."""
        self._transport.request("DELETE", "dotfiles/file/", params={"path": path})


class StartupScript(Endpoint):
    """Script that each of your new sessions runs, as `client.startup_script`."""

    def get(self) -> str:
        """Return the script. Raises NotFound if there is none."""
        return get_field(self._transport.get_json("startup-script/"), "content", str)

    def set(self, content: str) -> None:
        self._transport.request("PUT", "startup-script/", json={"content": content})

    def remove(self) -> None:
        """Delete the script. Raises NotFound."""
        self._transport.request("DELETE", "startup-script/")
