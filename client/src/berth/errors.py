"""Errors of the library, one class per reaction of the caller.

The message is one sentence; the hint names the next step.
"""

from collections.abc import Mapping, Sequence


class BerthError(Exception):
    """Base of all errors. `code` is the portal's stable error code, "" if none came."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: str = "",
        fields: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.fields = dict(fields or {})


class InvalidInput(BerthError):
    """Invalid argument or input; `fields` maps each wrong field to its error."""


class NotSignedIn(BerthError):
    """No token, or a token that the portal does not accept (any more)."""


class NotFound(BerthError):
    """Object that is absent or hidden from the user: the portal answers both alike."""


class Refused(BerthError):
    """Request understood but refused: no permission, wrong state, or over a limit."""


class Unreachable(BerthError):
    """Portal, or a service that it needs, without an answer. A later try may succeed."""


class UnexpectedAnswer(BerthError):
    """Answer that no compatible Berth portal gives: another program, another version or a fault."""


class SessionEnded(BerthError):
    """Session that ended while the caller waited for another status."""


class WaitedTooLong(BerthError):
    """Deadline of the caller that passed. The operation itself continues."""
