"""Numbers of networks of sessions on several machines."""

from typing import Any

from sessions_app.launch.cluster_network import vni_of


def test_installations_that_share_a_machine_number_their_networks_differently(settings: Any) -> None:
    first = {}
    for settings.BERTH_INSTALLATION in ("one", "other"):
        first[settings.BERTH_INSTALLATION] = [vni_of(number) for number in range(1, 100)]
        assert all(4096 <= vni < 2**24 for vni in first[settings.BERTH_INSTALLATION])
    assert not set(first["one"]) & set(first["other"])
