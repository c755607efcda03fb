"""NVIDIA accelerators as NVML reports them."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from agents.accelerators import discover_devices, nvidia
from agents.accelerators.base import DeviceUse
from tests.doubles.accelerators import MockDiscovery


class Nvml:
    """The library, on a machine with one accelerator, or with several of which some are linked."""

    NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK = 2, 0

    NVML_TEMPERATURE_GPU = 0

    class NVMLError(Exception):
        pass

    class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801
        pass

    class NVMLError_DriverNotLoaded(NVMLError):  # noqa: N801
        pass

    def __init__(
        self,
        *,
        is_broken: bool = False,
        knows_nodes: bool = True,
        count: int = 1,
        links: tuple[tuple[int, int], ...] | None = None,
        untold: Collection[str] = (),
        silent: Collection[int] = (),
        refusal: type[Exception] | None = None,
    ) -> None:
        self.count, self.links, self.untold, self.silent, self.refusal = count, links, untold, silent, refusal
        self.is_broken, self.knows_nodes = is_broken, knows_nodes
        self.is_open = False

    def _tell(self, name: str, answer: Any) -> Any:
        if name in self.untold:
            raise self.NVMLError("not supported")
        return answer

    def nvmlInit(self) -> None:  # noqa: N802
        if self.refusal:
            raise self.refusal("no")
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        if self.is_broken:
            raise self.NVMLError("driver went away")
        return self.count

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, index: int) -> int:  # noqa: N802
        if self.links is None:
            raise self.NVMLError("not supported")
        return self.NVML_P2P_STATUS_OK if (one, other) in self.links else 5

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index in self.silent:
            raise self.NVMLError("GPU is lost")
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:  # noqa: N802
        return self._tell("uuid", b"GPU-0")

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return "Big One"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return self._tell("memory", SimpleNamespace(total=2**36, used=2**30))

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return self._tell("rates", SimpleNamespace(gpu=12, memory=3))

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        return self._tell("power", 71_500)

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: N802
        return self._tell("temperature", 41)

    def nvmlDeviceGetPciInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(busId=b"00:1E.0")

    def nvmlDeviceGetNumaNodeId(self, handle: int) -> int:  # noqa: N802
        if not self.knows_nodes:
            raise self.NVMLError("not supported")
        return 1


@pytest.mark.parametrize(("knows_nodes", "node"), [(True, 1), (False, None)])
def test_accelerator_is_what_its_driver_says(
    monkeypatch: pytest.MonkeyPatch, knows_nodes: bool, node: int | None
) -> None:
    nvml = Nvml(knows_nodes=knows_nodes)
    monkeypatch.setattr(nvidia, "pynvml", nvml)
    [device] = nvidia.NvidiaDiscovery().discover() or ()
    assert (device.slot_name, device.device_id, device.index) == ("cuda", "GPU-0", 0)
    assert (device.model, device.mem_bytes, device.pci_address) == ("Big One", 2**36, "00:1E.0")
    assert device.numa_node == node
    assert not nvml.is_open


def test_of_a_driver_that_goes_away_nobody_knows_the_accelerators_and_nothing_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml = Nvml(is_broken=True)
    monkeypatch.setattr(nvidia, "pynvml", nvml)
    assert nvidia.NvidiaDiscovery().discover() is None
    assert discover_devices([MockDiscovery(2), nvidia.NvidiaDiscovery()]) is None
    assert not nvml.is_open
    assert nvidia.NvidiaDiscovery().measure() == ()
    assert not nvml.is_open


@pytest.mark.parametrize(
    ("refusal", "devices"),
    [
        (Nvml.NVMLError_LibraryNotFound, ()),
        (Nvml.NVMLError_DriverNotLoaded, ()),
        (Nvml.NVMLError, None),
    ],
)
def test_a_machine_without_a_driver_has_no_accelerators_and_one_whose_driver_fails_may_have_some(
    monkeypatch: pytest.MonkeyPatch, refusal: type[Exception], devices: tuple[()] | None
) -> None:
    monkeypatch.setattr(nvidia, "pynvml", Nvml(refusal=refusal))
    assert nvidia.NvidiaDiscovery().discover() == devices
    assert nvidia.NvidiaDiscovery().measure() == ()


def test_an_accelerator_that_fell_off_its_bus_hides_no_other_and_links_go_by_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml = Nvml(count=4, silent=[0], links=((1, 2),))
    monkeypatch.setattr(nvidia, "pynvml", nvml)
    devices = nvidia.NvidiaDiscovery().discover()
    assert devices is not None
    assert [(device.index, device.link_group) for device in devices] == [(1, 1), (2, 1), (3, None)]
    assert not nvml.is_open


@pytest.mark.parametrize(
    ("untold", "use"),
    [
        (
            (),
            DeviceUse(
                device_id="GPU-0", percent=12, mem_bytes=2**30, mem_total_bytes=2**36, watts=71.5, celsius=41
            ),
        ),
        (
            ("rates", "power"),
            DeviceUse(device_id="GPU-0", mem_bytes=2**30, mem_total_bytes=2**36, celsius=41),
        ),
        (("memory", "temperature"), DeviceUse(device_id="GPU-0", percent=12, watts=71.5)),
        (("rates", "memory"), None),
        (("uuid",), None),
    ],
)
def test_what_a_device_does_is_what_it_tells_of_it(
    monkeypatch: pytest.MonkeyPatch, untold: Collection[str], use: DeviceUse | None
) -> None:
    nvml = Nvml(untold=untold)
    monkeypatch.setattr(nvidia, "pynvml", nvml)
    assert nvidia.NvidiaDiscovery().measure() == ((use,) if use else ())
    assert not nvml.is_open


@pytest.mark.parametrize(
    ("links", "groups"),
    [
        (None, [None, None, None, None]),
        ((), [None, None, None, None]),
        (((0, 1), (2, 3)), [0, 0, 2, 2]),
        (((1, 3),), [None, 1, None, 1]),
        (((2, 3), (0, 1), (1, 2)), [0, 0, 0, 0]),
    ],
)
def test_accelerators_are_joined_by_their_links(
    monkeypatch: pytest.MonkeyPatch, links: tuple[tuple[int, int], ...] | None, groups: list[int | None]
) -> None:
    monkeypatch.setattr(nvidia, "pynvml", Nvml(count=4, links=links))
    assert [device.link_group for device in nvidia.NvidiaDiscovery().discover() or ()] == groups
