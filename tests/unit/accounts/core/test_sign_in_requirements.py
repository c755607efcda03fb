"""Rules of second factors and allowed networks."""

import pytest

from accounts.core.roles import Role
from accounts.core.sign_in_requirements import (
    MOST_NETWORKS,
    SecondFactor,
    is_allowed_from,
    needs_second_factor,
    parse_networks,
)


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        (SecondFactor.OPTIONAL, set()),
        (SecondFactor.ADMINS, set(Role) - {Role.USER}),
        (SecondFactor.EVERYBODY, set(Role)),
    ],
)
def test_a_domain_says_who_needs_a_second_factor(policy: SecondFactor, asked: set[Role]) -> None:
    assert {role for role in Role if needs_second_factor(policy, role)} == asked


@pytest.mark.parametrize(
    ("ip", "is_allowed"),
    [
        ("192.0.2.7", True),
        ("::ffff:192.0.2.7", True),
        ("2001:db8::7", True),
        ("198.51.100.1", False),
        ("2001:db9::7", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_networks_bound_from_where_an_account_is_used(ip: str, is_allowed: bool) -> None:
    assert is_allowed_from(ip, ["192.0.2.0/24", "2001:db8::/32"]) is is_allowed
    assert is_allowed_from(ip, [])


def test_networks_are_stored_in_a_normal_form() -> None:
    assert parse_networks([" 192.0.2.7/24", "192.0.2.0/24", "", "10.1.2.3"]) == [
        "192.0.2.0/24",
        "10.1.2.3/32",
    ]


def test_what_is_no_list_of_networks_says_why() -> None:
    with pytest.raises(ValueError, match="“home” is no network"):
        parse_networks(["home"])
    with pytest.raises(ValueError, match="too many"):
        parse_networks([f"10.0.{number}.0/24" for number in range(MOST_NETWORKS + 1)])
