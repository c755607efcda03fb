"""A start-up page is served while the portal starts."""

import http.client
import json
import socket

import pytest

from portal.ops.services.startup_page import WORDS, language_for, startup_page
from portal.ops.setup.env_file import free_port

HOST = "127.0.0.1"


def ask(port: int, method: str, path: str, **headers: str) -> tuple[http.client.HTTPResponse, str]:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def test_people_get_a_page_that_goes_on_by_itself() -> None:
    port = free_port()
    with startup_page(HOST, port):
        answer, text = ask(port, "GET", "/sessions/")
        head, nothing = ask(port, "HEAD", "/")

    assert answer.status == head.status == 503
    assert answer.headers["Retry-After"] == "3"
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert "Berth is starting" in text
    assert "location.reload()" in text
    assert nothing == ""


def test_the_page_is_in_the_language_of_the_reader() -> None:
    port = free_port()
    with startup_page(HOST, port):
        japanese = ask(port, "GET", "/", **{"Accept-Language": "fr, ja-JP;q=0.8, en;q=0.5"})[1]
        chosen = ask(port, "GET", "/", **{"Accept-Language": "ja", "Cookie": "a=1; berth_language=ko"})[1]

    assert '<html lang="ja">' in japanese
    assert WORDS["ja"].title in japanese
    assert '<html lang="ko">' in chosen


@pytest.mark.parametrize(
    ("cookie", "accepted", "language"),
    [
        ("", "", "en"),
        ("", "xx", "en"),
        ("berth_language=xx", "ko", "ko"),
        ("=\x00;;", "ja", "ja"),
        ("", "EN-us,ko", "en"),
    ],
)
def test_the_language_is_a_known_one(cookie: str, accepted: str, language: str) -> None:
    assert language_for(cookie, accepted) == language


def test_programs_get_an_error_that_says_when_to_ask_again() -> None:
    port = free_port()
    with startup_page(HOST, port):
        answer, text = ask(port, "POST", "/api/v1/sessions/")

    assert answer.status == 503
    assert json.loads(text)["code"] == "starting"


def test_the_port_is_free_once_the_server_has_stopped() -> None:
    port = free_port()
    with startup_page(HOST, port) as close_startup_page:
        close_startup_page()
        with socket.create_server((HOST, port)):
            pass


def test_a_port_that_others_have_is_left_to_them() -> None:
    with socket.create_server((HOST, 0)) as other:
        with startup_page(HOST, other.getsockname()[1]) as close_startup_page:
            close_startup_page()
