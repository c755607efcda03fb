"""Names of browsers and systems from user agents."""

import pytest

from common.http.user_agent import device_name

LIKE_GECKO = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "words"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (
            f"Mozilla/5.0 (Windows NT 10.0) {LIKE_GECKO} Chrome/140.0 Safari/537.36 Edg/140.0",
            "Edge on Windows",
        ),
        (
            f"Mozilla/5.0 (Linux; Android 15) {LIKE_GECKO} Chrome/140.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1",
            "Safari on iPhone",
        ),
        ("berth/1.0", "berth"),
        ("curl/8.5.0", "curl"),
        ("a Macintosh of another kind", "macOS"),
        ("", ""),
        ("\0<script>", ""),
    ],
)
def test_program_and_system_are_named(user_agent: str, words: str) -> None:
    assert device_name(user_agent) == words
