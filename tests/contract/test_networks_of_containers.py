"""A container starts although its network was removed and created again."""

import pytest

from agents.runtime.port import ContainerStatus, NetworkMissing
from tests.contract.conftest import Rig


def test_container_whose_network_was_removed_starts_once_it_is_there_again(rig: Rig) -> None:
    network = rig.network()
    spec = rig.spec(network=network.name)
    rig.runtime.ensure_network(network)
    rig.runtime.ensure_container(spec)
    rig.runtime.remove_network(network.name)
    with pytest.raises(NetworkMissing):
        rig.runtime.start_container(spec.name)

    rig.runtime.ensure_network(network)
    rig.runtime.start_container(spec.name)

    state = rig.runtime.inspect_container(spec.name)
    assert state is not None
    assert (state.status, set(state.addresses)) == (ContainerStatus.RUNNING, {network.name})
    rig.runtime.remove_container(spec.name)
    rig.runtime.remove_network(network.name)
