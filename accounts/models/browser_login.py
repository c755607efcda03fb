"""Browser logins: Django's session store with its rows, impersonation and sign-in links."""

import re
from datetime import UTC, datetime
from typing import Any, ClassVar, cast

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.base_session import AbstractBaseSession, BaseSessionManager
from django.db import models

from accounts.core.token_secrets import hash_secret
from accounts.models.people import User
from common import clock


class BrowserLoginManager(BaseSessionManager):
    """Manager that joins the impersonated user, so that requests need no second query."""

    def get_queryset(self) -> Any:
        return super().get_queryset().select_related("viewing__person__domain")


class BrowserLogin(AbstractBaseSession):
    """Django session of a browser with its user, written by `SessionStore`. `user` is null until
    sign-in; deleting the row signs the browser out.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="browser_logins")
    ip = models.CharField(max_length=45, blank=True, help_text="Where it was signed in from.")
    user_agent = models.CharField(max_length=200, blank=True)
    signed_in_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    objects: ClassVar[BrowserLoginManager] = BrowserLoginManager()

    @classmethod
    def get_session_store_class(cls) -> type[SessionBase]:
        return SessionStore

    def __str__(self) -> str:
        return f"login of {self.user_id}"

    @property
    def public_id(self) -> str:
        """Identifier for display and REST; the session key itself is a credential."""
        return hash_secret(self.session_key)[:16]


class Impersonation(models.Model):
    """Impersonation of `person` in this browser: the portal is shown read-only as that user for a
    limited time (`accounts.logins.impersonation`). Ends with the login.
    """

    login = models.OneToOneField(BrowserLogin, on_delete=models.CASCADE, related_name="viewing")
    person = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    reason = models.CharField(max_length=200)
    began_at = models.DateTimeField(default=clock.now)
    ends_at = models.DateTimeField()

    class Meta:
        db_table = "accounts_viewing"
        constraints = (
            models.CheckConstraint(condition=models.Q(ends_at__gt=models.F("began_at")), name="viewing_ends"),
            models.CheckConstraint(condition=~models.Q(reason=""), name="viewing_has_a_reason"),
        )

    def __str__(self) -> str:
        return f"viewing as {self.person_id}"


class SignInLink(models.Model):
    """One-time sign-in link of a user, with an expiry."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    code_hash = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"sign-in link for {self.user}"


# Key of sign-in data in a session, kept when its key changes: {"ip", "user_agent", "at" (seconds)}.
SIGNED_IN = "signed_in"

_KEY = re.compile(r"[a-z0-9]{8,40}")


class SessionStore(DatabaseStore):
    """Session store with a user per row. `row` is the row that the session was read from; None for
    a new one. The class name is part of the signature of session data.
    """

    row: BrowserLogin | None = None

    def _validate_session_key(self, key: str | None) -> bool:
        """Reject malformed keys before a query; PostgreSQL raises for a NUL character."""
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
    """Set user and origin of the row from the session data; anonymous sessions stay without."""
    if SESSION_KEY in data:
        signed_in = data.get(SIGNED_IN, {})
        row.user_id = int(data[SESSION_KEY])
        row.ip = signed_in.get("ip", "")
        row.user_agent = signed_in.get("user_agent", "")
        row.signed_in_at = datetime.fromtimestamp(signed_in["at"], UTC) if "at" in signed_in else clock.now()
        row.seen_at = clock.now()
    return row
