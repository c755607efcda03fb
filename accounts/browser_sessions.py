"""Django's sessions, kept in rows that know whose login they are: `SESSION_ENGINE`."""

import re
from datetime import UTC, datetime
from typing import Any, cast

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore

from accounts.models import BrowserLogin
from common import clock

# What a session carries of its sign-in, through changes of its key: {"ip", "user_agent", "at" (seconds)}.
SIGNED_IN = "signed_in"
_KEY = re.compile(r"[a-z0-9]{8,40}")


class SessionStore(DatabaseStore):
    """`row` is what the session was read from; None for a new one. The name of the class is part of how data is signed."""

    row: BrowserLogin | None = None

    def _validate_session_key(self, key: str | None) -> bool:
        """What no session was ever called by is not looked for: the database does not even compare with a NUL."""
        return bool(key and _KEY.fullmatch(key))

    @classmethod
    def get_model_class(cls) -> type[BrowserLogin]:
        return BrowserLogin

    def create_model_instance(self, data: dict[str, Any]) -> BrowserLogin:
        return _describe(cast("BrowserLogin", super().create_model_instance(data)), data)

    async def acreate_model_instance(self, data: dict[str, Any]) -> BrowserLogin:
        return _describe(cast("BrowserLogin", await super().acreate_model_instance(data)), data)

    def _get_session_from_db(self) -> BrowserLogin | None:
        self.row = super()._get_session_from_db()  # type: ignore[misc]
        return self.row

    async def _aget_session_from_db(self) -> BrowserLogin | None:
        self.row = await super()._aget_session_from_db()  # type: ignore[misc]
        return self.row


def _describe(row: BrowserLogin, data: dict[str, Any]) -> BrowserLogin:
    """Whose it is, and from where; sessions of nobody say nothing."""
    if SESSION_KEY in data:
        signed_in = data.get(SIGNED_IN, {})
        row.user_id = int(data[SESSION_KEY])
        row.ip = signed_in.get("ip", "")
        row.user_agent = signed_in.get("user_agent", "")
        row.signed_in_at = datetime.fromtimestamp(signed_in["at"], UTC) if "at" in signed_in else clock.now()
        row.seen_at = clock.now()
    return row
