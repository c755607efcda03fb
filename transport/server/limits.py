"""What one connection, one peer and all together may cost."""

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds. No request needs more; what reaches a limit is answered and closed."""

    target_bytes: int = 16 * KIB
    field_bytes: int = 32 * KIB
    head_bytes: int = 64 * KIB
    fields: int = 128
    # What may arrive beside the body: sizes, extensions and trailers of its chunks. A chunk of one byte has five.
    overhead_bytes: int = 64 * KIB
    overhead_for_each_byte: int = 16
    # Requests that wait for the answer to an earlier one of the same connection.
    queued_requests: int = 16
    # A body that the application has not taken yet, and an answer that the client has not.
    taken_ahead_bytes: int = 256 * KIB
    unsent_bytes: int = 256 * KIB

    head_s: float = 20.0
    idle_s: float = 65.0
    # A body that the application waits for brings `pace_bytes` in each `pace_s`; an answer is read at all within `stall_s`.
    pace_s: float = 60.0
    pace_bytes: int = KIB
    stall_s: float = 600.0
    # How long we listen on after the last word, as closing at once could take it away from a client that still sends.
    linger_s: float = 5.0

    connections: int = 8192
    connections_of_peer: int = 1024
