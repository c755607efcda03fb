"""Names, paths and addresses of a cluster and its machines.

Each name contains the id of the cluster, so everything is found again without a record of it.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

HOMES = Path("/var/tmp")
PREFIX = "berth-cluster-"
MARK = "BERTH_CLUSTER_MACHINE"
"""Variable in the environment of all processes of a machine; its value is `ClusterMachine.home`."""
MOST_MACHINES = 100
FIRST_HOST = 10  # .1 is this machine
PORT = 2376


@dataclass(frozen=True, slots=True)
class ClusterMachine:
    """One machine: an engine with an address, a network namespace and a directory of its own."""

    cluster: "Cluster"
    number: int

    @property
    def name(self) -> str:
        return f"machine-{self.number}"

    @property
    def home(self) -> Path:
        return self.cluster.home / self.name

    @property
    def namespace(self) -> str:
        """The name of its network namespace, and of its control group."""
        return f"{PREFIX}{self.cluster.id}-{self.number}"

    @property
    def cable(self) -> str:
        """The end of its network cable on this machine."""
        return f"{self.cluster.bridge}-{self.number}"

    @property
    def address(self) -> IPv4Address:
        return self.cluster.subnet[FIRST_HOST + self.number]

    @property
    def url(self) -> str:
        return f"tcp://{self.address}:{PORT}"

    @property
    def socket(self) -> Path:
        return self.home / "engine.sock"

    @property
    def data(self) -> Path:
        """The root of its engine's data, on a small disk of its own if the cluster has those."""
        return self.home / "data"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster; `id` has six hexadecimal digits."""

    id: str

    @property
    def home(self) -> Path:
        return HOMES / f"{PREFIX}{self.id}"

    @property
    def bridge(self) -> str:
        """Not `bth…`, which are networks of sessions."""
        return f"bcl{self.id}"

    @property
    def certificates(self) -> Path:
        """The directory for `DOCKER_CERT_PATH` and `register_agent --tls`."""
        return self.home / "tls"

    @property
    def options_file(self) -> Path:
        return self.home / "cluster.json"

    @property
    def subnet(self) -> IPv4Network:
        return IPv4Network(json.loads(self.options_file.read_text())["subnet"])

    @property
    def options(self) -> "Options":
        told = json.loads(self.options_file.read_text())
        return Options(disk_mib=told["disk_mib"], has_swarm=told["has_swarm"])

    def write_options(self, subnet: IPv4Network, options: "Options") -> None:
        told = {"subnet": str(subnet), "disk_mib": options.disk_mib, "has_swarm": options.has_swarm}
        self.options_file.write_text(json.dumps(told))

    def machine(self, number: int) -> ClusterMachine:
        return ClusterMachine(self, number)

    def machines(self) -> Iterator[ClusterMachine]:
        """Yield the machines that were ever brought up, in order."""
        numbers = (path.name.removeprefix("machine-") for path in self.home.glob("machine-*"))
        yield from (self.machine(number) for number in sorted(int(text) for text in numbers))


@dataclass(frozen=True, slots=True)
class Options:
    """Shape of new machines: the size of their disks (0: none of their own), and if their
    engines form a swarm, which excludes live-restore.
    """

    disk_mib: int = 0
    has_swarm: bool = False


def cluster_of(data: Path) -> Cluster:
    """Return the cluster that belongs to a data directory of Berth."""
    return Cluster(hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:6])


def all_clusters() -> Iterator[Cluster]:
    """Yield all clusters on this machine that have a directory."""
    yield from (Cluster(path.name.removeprefix(PREFIX)) for path in HOMES.glob(f"{PREFIX}??????"))
