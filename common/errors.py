"""Errors that people and programs see: code, HTTP status, message, hint, fields. Edges render them in one place.

Text = what failed, the value, what to do. Raise the class that says what kind of refusal it is.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar


class BerthError(Exception):
    """Base of all refusals. `code` is stable and for machines; `message` and `hint` are for people."""

    default_code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500
    is_recorded = False  # whoever raised it has told the access log

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        fields: dict[str, list[str]] | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields or {}
        self.code = code or self.default_code

    def headers(self) -> dict[str, str]:
        """What an answer with it has besides."""
        return {}

    def to_json(self) -> dict[str, object]:
        """The body of a refusal over REST."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "fields": self.fields}


class InvalidInput(BerthError):
    """The request cannot be understood; `fields` names each wrong value."""

    default_code = "invalid"
    http_status = 400


class NotAuthenticated(BerthError):
    """Nobody is signed in, or the token is unknown, revoked or expired."""

    default_code = "not_authenticated"
    http_status = 401


class PermissionDenied(BerthError):
    """The actor sees the object, yet may not do this to it."""

    default_code = "permission_denied"
    http_status = 403


class NotFound(BerthError):
    """Absent, or hidden from this actor: both answer alike."""

    default_code = "not_found"
    http_status = 404


class Conflict(BerthError):
    """The object is in a state in which this cannot be done."""

    default_code = "conflict"
    http_status = 409


class TooLarge(BerthError):
    """The body of the request is larger than this address takes."""

    default_code = "too_large"
    http_status = 413


class LimitExceeded(BerthError):
    """Limits or the size of the machines forbid it; the message names limit, use and request, `limits` has their numbers.
    `allow_lists` do not have what is asked for, `budgets` are sentences of budgets that are used up."""

    default_code = "limit_exceeded"
    http_status = 422

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        fields: dict[str, list[str]] | None = None,
        limits: Sequence[Mapping[str, object]] = (),
        allow_lists: Sequence[Mapping[str, object]] = (),
        budgets: Sequence[str] = (),
    ) -> None:
        super().__init__(message, hint=hint, fields=fields)
        self.limits = limits
        self.allow_lists = allow_lists
        self.budgets = budgets

    @property
    def sentences(self) -> list[str]:
        """One for each limit, allow-list and budget; none where the machines are too small."""
        return [*(str(each["message"]) for each in (*self.limits, *self.allow_lists)), *self.budgets]

    def to_json(self) -> dict[str, object]:
        return {
            **super().to_json(),
            "limits": list(self.limits),
            "allow_lists": list(self.allow_lists),
            "budgets": list(self.budgets),
        }


class TooManyRequests(BerthError):
    """As much of this kind is under way for the actor as may be; later it may be asked for again, after `retry_after_s` if
    that is known (answers have it as Retry-After)."""

    default_code = "too_many_requests"
    http_status = 429

    def __init__(
        self, message: str, *, hint: str = "", code: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.retry_after_s = retry_after_s

    def headers(self) -> dict[str, str]:
        return {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}


class Unavailable(BerthError):
    """A part that is needed (an engine, a storage host) does not answer now; trying again may help."""

    default_code = "unavailable"
    http_status = 503
