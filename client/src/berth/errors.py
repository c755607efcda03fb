"""What can go wrong, by what one can do about it. The message is one sentence, the hint says what to do next."""

from collections.abc import Mapping, Sequence


class BerthError(Exception):
    """Base of all errors of this library. `code` is the portal's stable code, "" if the portal said nothing."""

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
    """Something that was given cannot be understood; `fields` names each wrong value."""


class NotSignedIn(BerthError):
    """There is no token, or the portal does not know it (any more)."""


class NotFound(BerthError):
    """Absent, or not yours to see: the portal answers both alike."""


class Refused(BerthError):
    """The portal understood and said no: not allowed, not in this state, over a limit."""


class Unreachable(BerthError):
    """The portal, or a part that it needs, does not answer. Trying again later may help."""


class UnexpectedAnswer(BerthError):
    """What answers is no Berth portal, one of another age, or one with a fault."""


class SessionEnded(BerthError):
    """A session that was waited for has ended instead."""


class WaitedTooLong(BerthError):
    """A deadline of the caller passed. What was waited for goes on."""
