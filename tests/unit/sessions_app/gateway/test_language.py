"""Pages at app hosts use the reader's language, without Django's middleware."""

import pytest
from django.conf import settings
from django.utils import translation

from sessions_app.gateway.proxy.request import client_language
from transport.proxy import Headers

CHOSEN = settings.LANGUAGE_COOKIE_NAME.encode()


@pytest.mark.parametrize(
    ("headers", "language"),
    [
        ([], "en"),
        ([(b"accept-language", b"ja,en;q=0.5")], "ja"),
        ([(b"accept-language", b"xx;q=0.9, ko-KR;q=0.8, en;q=0.1")], "ko"),
        ([(b"accept-language", b"xx")], "en"),
        ([(b"accept-language", b"\xff\xfe;;=,")], "en"),
        ([(b"accept-language", b"ja"), (b"cookie", b"a=1; " + CHOSEN + b"=ko")], "ko"),
        ([(b"accept-language", b"ja"), (b"cookie", CHOSEN + b"=../../xx")], "ja"),
        ([(b"cookie", b"a=1"), (b"cookie", CHOSEN + b"=ja; " + CHOSEN + b"=ko")], "ja"),
    ],
)
def test_the_gateway_speaks_as_the_browser_asks(headers: Headers, language: str) -> None:
    before = translation.get_language()

    with client_language(headers):
        assert translation.get_language() == language
    assert translation.get_language() == before
