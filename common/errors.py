"""Errors shown to users and programs: code, HTTP status, message, hint, fields. Rendered by
`common.rest.errors` and `common.pages.error_pages`.

Text = what failed, the value, what to do. Raise the class of the kind of refusal.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self


class BerthError(Exception):
    """Base of all refusals. `code` is stable, for machines; `message` and `hint` are for people."""

    default_code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500
    is_recorded = False  # already recorded in the audit log where it was raised

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

    @classmethod
    def at(cls, field: str, sentence: str, **more: Any) -> Self:
        """Return an error that is shown at this field of the request."""
        return cls(sentence, fields={field: [sentence]}, **more)

    def headers(self) -> dict[str, str]:
        """Return extra headers of the response."""
        return {}

    def to_json(self) -> dict[str, object]:
        """Return the REST response body."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "fields": self.fields}


class InvalidInput(BerthError):
    """The request cannot be understood; `fields` names each wrong value."""

    default_code = "invalid"
    http_status = 400


@contextmanager
def invalid_field(name: str) -> Iterator[None]:
    """Raise a ValueError of the block as InvalidInput at this field of the request."""
    try:
        yield
    except ValueError as error:
        raise InvalidInput.at(name, str(error)) from error


class NotAuthenticated(BerthError):
    """The request is not signed in, or its token is unknown, revoked or expired."""

    default_code = "not_authenticated"
    http_status = 401


class PermissionDenied(BerthError):
    """The actor can see the object, but may not do this to it."""

    default_code = "permission_denied"
    http_status = 403


class NotFound(BerthError):
    """The object is absent, or hidden from this actor; both give the same response."""

    default_code = "not_found"
    http_status = 404


class Conflict(BerthError):
    """The object's state does not allow this."""

    default_code = "conflict"
    http_status = 409


class TooLarge(BerthError):
    """The body of the request is larger than this address accepts."""

    default_code = "too_large"
    http_status = 413


class LimitExceeded(BerthError):
    """A limit or the size of the machines forbids the request. The message names limit, use and
    request; `limits` has their numbers, `allow_lists` those that lack the value, `budgets` a
    sentence for each budget used up.
    """

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
        """One sentence per limit, allow-list and budget; empty if the machines are too small."""
        return [*(str(each["message"]) for each in (*self.limits, *self.allow_lists)), *self.budgets]

    def to_json(self) -> dict[str, object]:
        return {
            **super().to_json(),
            "limits": list(self.limits),
            "allow_lists": list(self.allow_lists),
            "budgets": list(self.budgets),
        }


class TooManyRequests(BerthError):
    """The actor has reached a rate or concurrency limit. A retry is possible later, after
    `retry_after_s` if known (sent as Retry-After).
    """

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
    """A required component (an engine, a storage host) does not answer; a retry may help."""

    default_code = "unavailable"
    http_status = 503
