"""Ports give an app what an app above it provides."""

import pytest

from common.ports import Port, PortError, Ports


def test_a_port_has_the_implementation_that_was_connected() -> None:
    port: Port[str] = Port("test.port")
    port.connect("first")
    port.connect("first")

    assert port.get() == "first"


def test_a_port_refuses_a_second_implementation() -> None:
    port: Port[str] = Port("test.port")
    port.connect("first")

    with pytest.raises(PortError, match=r"test\.port is connected to 'first' already"):
        port.connect("second")


def test_a_missing_implementation_is_named() -> None:
    port: Port[str] = Port("test.port")
    ports: Ports[str] = Ports("test.ports")

    with pytest.raises(PortError, match=r"test\.port is not connected"):
        port.get()
    with pytest.raises(PortError, match=r"test\.ports is not connected"):
        ports.get()


def test_a_default_serves_until_an_implementation_is_connected() -> None:
    port: Port[str] = Port("test.port", default="default")

    assert port.get() == "default"
    port.connect("first")
    assert port.get() == "first"


def test_several_implementations_keep_their_order_and_come_once() -> None:
    ports: Ports[str] = Ports("test.ports")
    for implementation in ("first", "second", "first"):
        ports.connect(implementation)

    assert list(ports.get()) == ["first", "second"]


def test_an_implementation_is_replaced_for_a_while() -> None:
    port: Port[str] = Port("test.port")
    ports: Ports[str] = Ports("test.ports")
    port.connect("real")
    ports.connect("real")

    with port.replaced("double"), ports.replaced("double", "other"):
        assert (port.get(), list(ports.get())) == ("double", ["double", "other"])
    assert (port.get(), list(ports.get())) == ("real", ["real"])
