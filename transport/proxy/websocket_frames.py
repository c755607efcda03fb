"""Frame boundaries of a websocket (RFC 6455, 5), without payloads. Pure but for `os.urandom`."""

import os
from collections.abc import Callable

NORMAL, GOING_AWAY, PROTOCOL_ERROR, TOO_BIG, INTERNAL_ERROR = 1000, 1001, 1002, 1009, 1011
MAX_MESSAGE_BYTES = 64 * 1024 * 1024

_FIN, _CLOSE, _PING = 0x80, 8, 9
_WHOLE = frozenset((0x81, 0x82))
_FIRST = frozenset((0x01, 0x02))
_NEXT, _LAST = 0x00, 0x80
_CONTROL = frozenset((0x88, 0x89, 0x8A))
_CONTROL_LIMIT_BYTES = 125
_REASON_LIMIT_BYTES = 123  # a control frame's payload without the code


OnMessage = Callable[[int], None]


class FrameFault(Exception):
    """A frame violates the protocol or a limit; `code` is the matching close code."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class FrameWatch:
    """Tracks frames in one direction of a websocket without extensions. `is_masked` marks the
    direction from client to server. `on_message` is called at the start of each message with its
    size, or that of its first fragment.
    """

    __slots__ = (
        "_head",
        "_is_fragmented",
        "_is_masked",
        "_left_bytes",
        "_message_bytes",
        "_on_message",
        "has_closed",
    )

    def __init__(self, *, is_masked: bool, on_message: OnMessage | None = None) -> None:
        self._on_message = on_message
        self.has_closed = False
        self._is_masked = is_masked
        self._left_bytes = 0
        self._head = b""
        self._is_fragmented = False
        self._message_bytes = 0

    @property
    def is_between_frames(self) -> bool:
        """True if an own frame may be inserted after the bytes passed so far."""
        return not self._left_bytes and not self._head

    def feed(self, data: bytes) -> None:
        """Track the next bytes. Bytes after a close frame are ignored. Raises FrameFault."""
        if self._left_bytes >= len(data):
            self._left_bytes -= len(data)
            return
        position, self._left_bytes = self._left_bytes, 0
        if self._head:
            data, self._head = self._head + data, b""
        size = len(data)
        mask_bytes = 4 if self._is_masked else 0
        while position < size and not self.has_closed:
            if size - position < 2:
                break
            first, second = data[position], data[position + 1]
            if (second > 127) != self._is_masked:
                raise FrameFault(
                    PROTOCOL_ERROR, "A frame is masked that must not be, or the other way round."
                )
            length, head_bytes = second & 127, 2
            if length > _CONTROL_LIMIT_BYTES:
                head_bytes = 4 if length == 126 else 10
                if size - position < head_bytes:
                    break
                length = int.from_bytes(data[position + 2 : position + head_bytes], "big")
            self._check(first, length)
            position += head_bytes + mask_bytes + length
        if position > size:
            self._left_bytes = position - size
        elif not self.has_closed:
            self._head = data[position:]

    def _check(self, first: int, length: int) -> None:
        if first in _CONTROL:
            if length > _CONTROL_LIMIT_BYTES:
                raise FrameFault(PROTOCOL_ERROR, "A control frame is too long.")
            self.has_closed = first == _FIN | _CLOSE
            return
        if first in _WHOLE or first in _FIRST:
            is_in_order = not self._is_fragmented
            self._message_bytes = length
            if self._on_message is not None:
                self._on_message(length)
        else:
            is_in_order = self._is_fragmented and first in (_NEXT, _LAST)
            self._message_bytes += length
        if not is_in_order:
            raise FrameFault(PROTOCOL_ERROR, "A frame is of no kind that may come here.")
        if self._message_bytes > MAX_MESSAGE_BYTES:
            raise FrameFault(TOO_BIG, "A message is too long.")
        self._is_fragmented = first < _FIN


def close_frame(code: int, reason: str = "", *, is_masked: bool = False) -> bytes:
    """Return a close frame; a reason that is too long is cut."""
    text = reason.encode()[:_REASON_LIMIT_BYTES].decode("utf-8", "ignore")
    return _control(_CLOSE, code.to_bytes(2, "big") + text.encode(), is_masked)


def ping_frame() -> bytes:
    """Return a ping frame for a client."""
    return _control(_PING, b"berth", is_masked=False)


def _control(opcode: int, payload: bytes, is_masked: bool) -> bytes:
    if not is_masked:
        return bytes((_FIN | opcode, len(payload))) + payload
    mask = os.urandom(4)
    hidden = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
    return bytes((_FIN | opcode, 0x80 | len(payload))) + mask + hidden
