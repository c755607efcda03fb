"""Frame boundaries of websockets, for any cut of the bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.proxy.websocket_frames import (
    MAX_MESSAGE_BYTES,
    FrameFault,
    FrameWatch,
    close_frame,
    ping_frame,
)


def frame(first: int, size: int, *, is_masked: bool = False) -> bytes:
    mask = 0x80 if is_masked else 0
    if size < 126:
        head = bytes((first, mask | size))
    elif size < 2**16:
        head = bytes((first, mask | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, mask | 127)) + size.to_bytes(8, "big")
    return head + (b"mask" if is_masked else b"") + bytes(size)


STREAM = [
    (0x81, 0),
    (0x82, 125),
    (0x82, 126),
    (0x01, 70_000),
    (0x89, 5),
    (0x00, 300),
    (0x80, 1),
    (0x8A, 0),
    (0x81, 3),
]


@given(st.booleans(), st.lists(st.integers(1, 5000), min_size=1, max_size=40))
def test_any_cut_of_a_stream_is_followed(is_masked: bool, cuts: list[int]) -> None:
    stream = b"".join(frame(first, size, is_masked=is_masked) for first, size in STREAM)
    watch, position = FrameWatch(is_masked=is_masked), 0
    for cut in cuts:
        watch.feed(stream[position : position + cut])
        position += cut
    watch.feed(stream[position:])
    assert watch.is_between_frames
    assert not watch.has_closed


def test_inside_a_frame_nothing_may_be_put() -> None:
    watch = FrameWatch(is_masked=False)
    for byte in frame(0x82, 300)[:-1]:
        watch.feed(bytes((byte,)))
        assert not watch.is_between_frames
    watch.feed(b"x")
    assert watch.is_between_frames


@pytest.mark.parametrize(
    "frames",
    [
        [(0x83, 0)],  # a kind that does not exist
        [(0xC1, 0)],  # compressed, which was not agreed
        [(0x80, 0)],  # goes on with nothing
        [(0x01, 1), (0x81, 1)],  # begins in the middle of another
        [(0x89, 126)],  # a ping that is too long
        [(0x09, 0)],  # a ping in parts
    ],
)
def test_what_is_no_websocket_is_a_fault(frames: list[tuple[int, int]]) -> None:
    with pytest.raises(FrameFault) as fault:
        FrameWatch(is_masked=False).feed(b"".join(frame(first, size) for first, size in frames))
    assert fault.value.code == 1002


@pytest.mark.parametrize("is_masked", [False, True])
def test_clients_mask_and_servers_do_not(is_masked: bool) -> None:
    with pytest.raises(FrameFault):
        FrameWatch(is_masked=is_masked).feed(frame(0x81, 1, is_masked=not is_masked))


def test_a_message_has_a_largest_size_however_it_is_cut() -> None:
    watch = FrameWatch(is_masked=False)
    watch.feed(b"\x02\x7f" + (MAX_MESSAGE_BYTES).to_bytes(8, "big"))
    for _ in range(MAX_MESSAGE_BYTES // 2**20):
        watch.feed(bytes(2**20))
    with pytest.raises(FrameFault) as fault:
        watch.feed(frame(0x80, 1))
    assert fault.value.code == 1009


def test_nothing_counts_behind_a_close_frame() -> None:
    watch = FrameWatch(is_masked=False)
    watch.feed(close_frame(1000) + b"\xff" * 20)
    watch.feed(b"\xff" * 20)
    assert watch.has_closed
    assert watch.is_between_frames


@given(st.integers(1000, 4999), st.text(max_size=200), st.booleans())
def test_our_own_frames_are_frames(code: int, reason: str, is_masked: bool) -> None:
    watch = FrameWatch(is_masked=is_masked)
    watch.feed(close_frame(code, reason, is_masked=is_masked))
    assert watch.has_closed


def test_a_ping_is_a_frame() -> None:
    watch = FrameWatch(is_masked=False)
    watch.feed(ping_frame())
    assert watch.is_between_frames
