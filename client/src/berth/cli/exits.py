"""Exit codes. `run` and `exec` end with the code of their command, if it ran."""

from berth.errors import BerthError, InvalidInput, NotFound, NotSignedIn, Refused, Unreachable, WaitedTooLong

FAILED, USAGE, NOT_FOUND, REFUSED, UNREACHABLE, NOT_SIGNED_IN, TOO_LATE = 1, 2, 3, 4, 5, 6, 7
FAULT = 70
INTERRUPTED = 130

MEANINGS = {
    0: "done",
    FAILED: "failed; also a session that ended without an exit code",
    USAGE: "invalid command line or value",
    NOT_FOUND: "not found, or hidden from you",
    REFUSED: "refused by the portal: not allowed, wrong state, over a limit",
    UNREACHABLE: "the portal, or a service that it needs, does not answer",
    NOT_SIGNED_IN: "no token, or a token that the portal does not accept",
    TOO_LATE: "timed out while waiting; the operation continues",
    FAULT: "error in the command itself; `BERTH_DEBUG=1` shows where",
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


def exit_code_for(error: BerthError) -> int:
    return _CODES.get(type(error), FAILED)
