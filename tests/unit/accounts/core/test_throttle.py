"""What attempts are counted on, without any count."""

import pytest

from accounts.core.throttle import UNKNOWN, Limit, Purpose, Whence, counted, network_of


@pytest.mark.parametrize(
    ("ip", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"),
        ("", UNKNOWN),
        ("192.0.2.300", UNKNOWN),
    ],
)
def test_what_counts_as_one_address(ip: str, network: str) -> None:
    assert network_of(ip) == network


@pytest.mark.parametrize(
    ("whence", "limits"),
    [
        (Whence("192.0.2.7"), [Limit.PLACE, Limit.ADDRESS, Limit.ACCOUNT]),
        (Whence("192.0.2.7", is_known_network=True), [Limit.PLACE, Limit.ADDRESS]),
        (Whence("192.0.2.7", device="a"), [Limit.PLACE]),
    ],
)
def test_known_places_do_not_stand_on_the_count_of_the_account(whence: Whence, limits: list[Limit]) -> None:
    assert [limit for limit, _key in counted(Purpose.PASSWORD, "ada@uni.example", whence)] == limits


@pytest.mark.parametrize("purpose", [Purpose.PROVIDER, Purpose.JOIN])
def test_where_nobody_is_named_no_account_is_counted(purpose: Purpose) -> None:
    limits = [limit for limit, _key in counted(purpose, "", Whence("192.0.2.7"))]
    assert limits == [Limit.PLACE, Limit.ADDRESS]
