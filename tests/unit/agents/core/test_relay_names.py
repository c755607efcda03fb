"""Addresses to which the gateway may ask a relay to connect."""

from typing import Any

from agents.core.relay_names import is_session_address

POOL, CLUSTERS = "10.213.0.0/16", "10.215.0.0/16"


def test_only_addresses_of_containers_are_those_of_sessions(subtests: Any) -> None:
    expected = {
        "10.213.0.2": True,
        "10.213.7.46": True,
        "10.213.0.0": False,  # network, bridge and broadcast of a /28
        "10.213.0.17": False,
        "10.213.0.31": False,
        "10.215.3.1": True,  # the first container of a session on several machines
        "10.215.3.16": True,
        "10.215.3.100": True,
        "10.215.3.0": False,
        "10.215.3.254": False,  # bridges
        "10.215.3.155": False,
        "10.216.0.2": False,
        "127.0.0.1": False,
        "no address": False,
    }
    for text, is_one in expected.items():
        with subtests.test(text):
            assert is_session_address(text, POOL, CLUSTERS) is is_one
