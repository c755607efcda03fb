"""A followed log is shown once, across lost connections."""

from contextlib import suppress

import httpx
import pytest

from berth import Unreachable
from berth.following import SEAM
from tests.client.wires import Pieces, client_on

LOST = httpx.ReadError("reset")
SESSION = "11111111-2222-3333-4444-555555555555"


def log(*pieces: bytes | Exception) -> httpx.Response:
    return httpx.Response(200, stream=Pieces(*pieces))


def followed(*answers: httpx.Response | Exception) -> bytes:
    client, _ = client_on(*answers)
    return b"".join(client.sessions.logs(SESSION, follow=True))


def test_a_lost_connection_is_taken_up_where_it_broke(no_pauses: list[float]) -> None:
    assert followed(log(b"one\ntw", LOST), log(b"one\n", b"two\nthr", LOST), log(b"one\ntwo\nthree\n")) == (
        b"one\ntwo\nthree\n"
    )


def test_a_connection_that_was_lost_before_its_first_byte_is_taken_up(no_pauses: list[float]) -> None:
    assert followed(log(LOST), log(b"all")) == b"all"


def test_a_log_that_begins_elsewhere_now_has_a_seam(no_pauses: list[float]) -> None:
    assert (
        followed(log(b"one\ntwo\n", LOST), log(b"something else")) == b"one\ntwo\n" + SEAM + b"something else"
    )


def test_a_log_that_is_shorter_now_has_a_seam(no_pauses: list[float]) -> None:
    assert followed(log(b"one\ntwo\n", LOST), log(b"one")) == b"one\ntwo\n" + SEAM + b"one"


def test_a_log_whose_beginning_was_dropped_meanwhile_goes_on_where_it_broke(no_pauses: list[float]) -> None:
    lines = [b"line %d\n" % number for number in range(3000)]
    seen, kept = b"".join(lines[:2000]), b"[Berth: dropped]\n" + b"".join(lines[1000:])

    assert followed(log(seen, LOST), log(kept[:7000], kept[7000:])) == b"".join(lines)


def test_new_lines_are_shown_soon_where_all_that_was_seen_was_dropped(
    no_pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.following.KEPT_BYTES", 10_000)
    kept = [b"[Berth: dropped]\n", *(b"new line %d\n" % number for number in range(1500))]
    assert_shown_before_the_end(kept)


def test_new_lines_are_shown_soon_where_few_come(
    no_pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.following.SEARCH_S", -1.0)
    assert_shown_before_the_end([b"[Berth: dropped]\n", b"new\n"])


def assert_shown_before_the_end(kept: list[bytes]) -> None:
    """An error takes the place of the silence after `kept`: what was held back until then is never shown."""
    seen = b"line\n" * 20_000
    client, _ = client_on(log(seen, LOST), log(*kept, RuntimeError("nothing comes any more")))
    shown = bytearray()
    with suppress(RuntimeError):
        for piece in client.sessions.logs(SESSION, follow=True):
            shown += piece
    assert shown == seen + SEAM + b"".join(kept)


def test_a_portal_that_stays_away_is_told(no_pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.following.PATIENCE_S", -1.0)
    with pytest.raises(Unreachable):
        followed(log(b"one", LOST), httpx.ConnectError("refused"))
