"""Host names and grants of apps."""

from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.core.token_secrets import hash_secret, new_secret
from sessions_app.core.app_address import (
    AppHost,
    host_name,
    is_app_name,
    is_hash,
    is_secret,
    is_under,
    local_path,
    parse_app_host,
    port_named,
)

SID = "abcdefghijklm234"
DOMAIN = "apps.localhost"


@pytest.mark.parametrize(
    ("host", "app"),
    [
        (f"jupyter-{SID}.apps.localhost", "jupyter"),
        (f"jupyter-{SID}.apps.localhost:8080", "jupyter"),
        (f"JUPYTER-{SID.upper()}.APPS.localhost.:8080", "jupyter"),
        (f"code-server-{SID}.apps.localhost", "code-server"),
        (f"p8000-{SID}.apps.localhost", "p8000"),
        (f"x-{SID}.apps.localhost", "x"),
    ],
)
def test_an_app_host_names_app_and_session(host: str, app: str) -> None:
    assert parse_app_host(host, DOMAIN) == AppHost(app=app, session_label=SID)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost",
        "apps.localhost",
        f"{SID}.apps.localhost",
        f"-{SID}.apps.localhost",
        f"a--{SID}.apps.localhost",
        "jupyter-short.apps.localhost",
        f"jupyter-{SID}1.apps.localhost",
        f"a.jupyter-{SID}.apps.localhost",
        f"jupyter-{SID}.apps.localhost.evil.example",
        f"jupyter-{SID}.evilapps.localhost",
        f"{'a' * 21}-{SID}.apps.localhost",
        f"jüpyter-{SID}.apps.localhost",
    ],
)
def test_any_other_host_names_nothing(host: str) -> None:
    assert parse_app_host(host, DOMAIN) is None


def test_every_name_below_the_domain_is_the_gateways() -> None:
    assert is_under("whatever.apps.localhost:80", DOMAIN)
    assert not is_under("apps.localhost", DOMAIN)
    assert not is_under("evilapps.localhost", DOMAIN)
    assert host_name("[::1]:8080") == "[::1]"


@pytest.mark.parametrize(
    ("app", "port"),
    [("p80", 80), ("p65535", 65535), ("p65536", None), ("p0", None), ("p080", None), ("jupyter", None)],
)
def test_a_port_may_stand_for_an_app(app: str, port: int | None) -> None:
    assert AppHost(app, SID).port == port


def test_secrets_are_long_and_kept_as_hashes() -> None:
    secret = new_secret()
    assert is_secret(secret)
    assert secret not in hash_secret(secret)
    assert len({new_secret() for _ in range(100)}) == 100
    assert not any(is_secret(text) for text in ("", "a" * 42, "a" * 44, "a" * 42 + "\n", "a" * 42 + ";"))


@pytest.mark.parametrize("path", ["/", "/lab?reset&x=/y#z", "/a%2Fb", "/@evil.example", "/:80/"])
def test_a_local_path_is_kept(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "lab",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil",
        "https://evil.example",
        "javascript:alert(1)",
        "/a\r\nX: y",
        "/\t/evil.example",
        "/é",
        "/" + "a" * 2000,
    ],
)
def test_any_other_address_becomes_the_root(path: str) -> None:
    assert local_path(path) == "/"


@given(st.text(alphabet=st.sampled_from("/\\.:@#?%ab\t\r\n \x00é"), max_size=12))
def test_no_path_ever_leaves_its_host(path: str) -> None:
    target = urlsplit(urljoin("https://app.example/x", local_path(path)))
    assert (target.scheme, target.netloc) == ("https", "app.example")


def test_names_of_apps_and_of_ports_are_told_from_anything_else() -> None:
    assert [port_named(name) for name in ("p1", "p65535", "p65536", "p0", "p08", "lab")] == [
        1,
        65535,
        None,
        None,
        None,
        None,
    ]
    assert all(is_app_name(name) for name in ("lab", "p8000", "a-b"))
    assert not any(is_app_name(name) for name in ("", "-lab", "Lab", "a/b", "x" * 21, "lab\n"))


def test_a_hash_is_not_a_secret() -> None:
    secret = new_secret()
    assert is_hash(hash_secret(secret))
    assert not is_hash(secret)
    assert not is_hash(hash_secret(secret).upper())
