"""Exit codes. `run` and `exec` end with the code of their command, if it ran."""

from berth.errors import BerthError, InvalidInput, NotFound, NotSignedIn, Refused, Unreachable, WaitedTooLong

FAILED, USAGE, NOT_FOUND, REFUSED, UNREACHABLE, NOT_SIGNED_IN, TOO_LATE = 1, 2, 3, 4, 5, 6, 7
FAULT = 70
INTERRUPTED = 130

MEANINGS = {
    0: "done",
    FAILED: "failed; also a session that ended without an exit code",
    USAGE: "the command line, or a value in it, cannot be understood",
    NOT_FOUND: "there is no such thing, or it is not yours to see",
    REFUSED: "the portal said no: not allowed, not in this state, over a limit",
    UNREACHABLE: "the portal, or a part that it needs, does not answer",
    NOT_SIGNED_IN: "no token, or one that the portal does not know (any more)",
    TOO_LATE: "what was waited for did not come in time; it goes on",
    FAULT: "a fault of the command itself; `BERTH_DEBUG=1` shows where",
    INTERRUPTED: "interrupted by Ctrl-C",
}

_CODES: dict[type[BerthError], int] = {
    InvalidInput: USAGE,
    NotFound: NOT_FOUND,
    Refused: REFUSED,
    Unreachable: UNREACHABLE,
    NotSignedIn: NOT_SIGNED_IN,
    WaitedTooLong: TOO_LATE,
}


def exit_code_of(error: BerthError) -> int:
    return _CODES.get(type(error), FAILED)
