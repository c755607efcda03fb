"""Callbacks: allowed addresses, events and signatures."""

import hashlib
import hmac
from datetime import timedelta
from ipaddress import ip_address, ip_network

import pytest

from sessions_app.core.callbacks import (
    LONGEST_WAIT,
    CallbackEvent,
    CallbackNetworks,
    Outcome,
    check_callback_url,
    event_for,
    is_callable,
    parse_target,
    retry_delay,
    session_outcome,
    signature,
)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "255.255.255.255",
        "224.0.0.1", "240.0.0.1", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fc00::1",
        "ff02::1", "fec0::1", "2001:db8::1", "168.63.129.16", "::ffff:168.63.129.16", "192.88.99.1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::", "2002:a9fe:a9fe::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "::127.0.0.1",
    ],
)  # fmt: skip
def test_machines_beside_the_open_internet_are_not_called(address: str) -> None:
    assert not is_callable(ip_address(address), CallbackNetworks())


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_machines_of_the_open_internet_are_called(address: str) -> None:
    assert is_callable(ip_address(address), CallbackNetworks())


def test_networks_that_the_administrator_allows_are_called_too() -> None:
    allowed = CallbackNetworks(allowed=(ip_network("10.20.0.0/16"), ip_network("fd00:1::/32")))
    assert is_callable(ip_address("10.20.3.4"), allowed)
    assert is_callable(ip_address("::ffff:10.20.3.4"), allowed)
    assert is_callable(ip_address("fd00:1::5"), allowed)
    assert not is_callable(ip_address("10.21.0.1"), allowed)
    assert not is_callable(ip_address("127.0.0.1"), allowed)


def test_networks_that_the_administrator_forbids_are_never_called() -> None:
    """Campuses have public addresses inside."""
    own = (ip_network("129.16.0.0/16"), ip_network("10.20.30.0/24"))
    networks = CallbackNetworks(allowed=(ip_network("10.20.0.0/16"),), forbidden=own)
    for address in ("129.16.3.4", "::ffff:129.16.3.4", "64:ff9b::8110:304", "10.20.30.1"):
        assert not is_callable(ip_address(address), networks)
    for address in ("129.17.3.4", "10.20.31.1"):
        assert is_callable(ip_address(address), networks)


def test_an_address_is_read_as_it_will_be_called() -> None:
    target = parse_target("https://CI.example.org/a/b?c=d")
    assert (target.scheme, target.host, target.port) == ("https", "ci.example.org", 443)
    assert target.path == "/a/b?c=d"
    assert target.address is None
    literal = parse_target("http://[::1]:8080")
    assert (literal.port, literal.path, str(literal.address)) == (8080, "/", "::1")


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_no_callback_is_none(nothing: object) -> None:
    assert check_callback_url(nothing) == ""


@pytest.mark.parametrize(
    ("from_status", "to", "news"),
    [
        ("STARTING", "RUNNING", CallbackEvent.STARTED),
        ("TERMINATING", "PENDING", CallbackEvent.RETRIED),
        ("", "PENDING", None),
        ("PENDING", "SCHEDULED", None),
        ("PENDING", "CANCELLED", CallbackEvent.ENDED),
        ("TERMINATING", "TERMINATED", CallbackEvent.ENDED),
        ("TERMINATING", "ERROR", CallbackEvent.ENDED),
    ],
)
def test_events_by_status_change(from_status: str, to: str, news: CallbackEvent | None) -> None:
    assert event_for(from_status, to) is news


@pytest.mark.parametrize(
    ("status", "reason", "outcome"),
    [
        ("TERMINATED", "command_finished", Outcome.SUCCESS),
        ("TERMINATED", "container_exited", Outcome.SUCCESS),
        ("TERMINATED", "command_failed", Outcome.FAILED),
        ("ERROR", "agent_lost", Outcome.FAILED),
        ("TERMINATED", "user_requested", Outcome.STOPPED),
        ("TERMINATED", "unused", Outcome.STOPPED),
        ("CANCELLED", "user_requested", Outcome.CANCELLED),
        ("CANCELLED", "pending_timeout", Outcome.CANCELLED),
    ],
)
def test_ends_have_an_outcome_for_programs(status: str, reason: str, outcome: Outcome) -> None:
    assert session_outcome(status, reason) is outcome


def test_the_signature_is_of_time_and_body() -> None:
    wanted = hmac.new(b"secret", b"17." + b'{"a": 1}', hashlib.sha256).hexdigest()
    assert signature("secret", 17, b'{"a": 1}') == wanted
    assert signature("secret", 18, b'{"a": 1}') != wanted


def test_waits_double_up_to_an_hour() -> None:
    assert [retry_delay(count) for count in (1, 2, 3)] == [timedelta(seconds=span) for span in (10, 20, 40)]
    assert retry_delay(30) == retry_delay(10_000) == LONGEST_WAIT
