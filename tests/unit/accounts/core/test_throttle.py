"""Keys by which sign-in attempts are counted."""

import pytest

from accounts.core.throttle import (
    RATES,
    UNKNOWN_NETWORK,
    AttemptLimit,
    AttemptOrigin,
    Purpose,
    address_network,
    attempt_keys,
)


@pytest.mark.parametrize(
    ("ip", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"),
        ("", UNKNOWN_NETWORK),
        ("192.0.2.300", UNKNOWN_NETWORK),
    ],
)
def test_what_counts_as_one_address(ip: str, network: str) -> None:
    assert address_network(ip) == network


@pytest.mark.parametrize(
    ("whence", "limits"),
    [
        (AttemptOrigin("192.0.2.7"), [AttemptLimit.PLACE, AttemptLimit.ADDRESS, AttemptLimit.ACCOUNT]),
        (AttemptOrigin("192.0.2.7", is_known_network=True), [AttemptLimit.PLACE, AttemptLimit.ADDRESS]),
        (AttemptOrigin("192.0.2.7", device="a"), [AttemptLimit.PLACE]),
    ],
)
def test_known_places_do_not_stand_on_the_count_of_the_account(
    whence: AttemptOrigin, limits: list[AttemptLimit]
) -> None:
    assert [limit for limit, _key in attempt_keys(Purpose.PASSWORD, "ada@uni.example", whence)] == limits


@pytest.mark.parametrize("purpose", [Purpose.PROVIDER, Purpose.JOIN])
def test_attempt_without_account_counts_for_no_account(purpose: Purpose) -> None:
    limits = [limit for limit, _key in attempt_keys(purpose, "", AttemptOrigin("192.0.2.7"))]
    assert limits == [AttemptLimit.PLACE, AttemptLimit.ADDRESS]


def test_every_count_of_an_attempt_has_a_rate() -> None:
    for purpose in Purpose:
        for origin in (AttemptOrigin("10.0.0.1"), AttemptOrigin("10.0.0.1", device="trusted")):
            assert {limit for limit, _key in attempt_keys(purpose, "", origin)} <= RATES[purpose].keys()
    assert attempt_keys(Purpose.LINK, "", AttemptOrigin("10.0.0.1", device="trusted"))
