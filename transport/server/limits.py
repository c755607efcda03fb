"""Limits of one connection, one peer and one server."""

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds; a request that exceeds one is refused."""

    target_bytes: int = 16 * KIB
    field_bytes: int = 32 * KIB
    head_bytes: int = 64 * KIB
    fields: int = 128
    # Bytes beside the body: sizes, extensions and trailers of chunks. A chunk of one byte has five.
    overhead_bytes: int = 64 * KIB
    overhead_for_each_byte: int = 16
    # Pipelined requests that wait for the response to an earlier one.
    queued_requests: int = 16
    # Buffered bytes of a body that the application has not read, and of a response not sent yet.
    taken_ahead_bytes: int = 256 * KIB
    unsent_bytes: int = 256 * KIB

    head_s: float = 20.0
    idle_s: float = 65.0
    # While the application waits for a body, at least `pace_bytes` must arrive in each `pace_s`.
    # A client that reads nothing of a response for `stall_s` is disconnected.
    pace_s: float = 60.0
    pace_bytes: int = KIB
    stall_s: float = 600.0
    # Reading continues for this long after the last response: closing immediately would reset the
    # connection and could discard the response while the client still sends.
    linger_s: float = 5.0

    connections: int = 8192
    connections_of_peer: int = 1024
