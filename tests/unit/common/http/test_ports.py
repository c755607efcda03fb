"""Lists of ports in settings."""

import pytest

from common.http.ports import parse_ports


def test_ports_are_read_in_order_each_once() -> None:
    assert parse_ports("8081-8083, 9000,8082") == (8081, 8082, 8083, 9000)
    assert parse_ports("") == ()
    assert parse_ports("65534-65540") == (65534, 65535)


@pytest.mark.parametrize("text", ["a", "1-b", "-5", "8080-", "80 81"])
def test_anything_else_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="no port") as refusal:
        parse_ports(text)
    assert repr(text) in str(refusal.value)
