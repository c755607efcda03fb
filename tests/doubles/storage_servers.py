"""Storage hosts that run for real on this machine: on its disk, and on servers of their own."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from urllib.request import Request, urlopen

from tests.waiting import wait_until
from vfolders.storage.backends.btrfs import BtrfsStorage
from vfolders.storage.backends.cephfs import KIND as CEPHFS
from vfolders.storage.backends.glusterfs import KIND as GLUSTERFS
from vfolders.storage.backends.local import LocalStorage
from vfolders.storage.backends.loop import LoopStorage
from vfolders.storage.backends.s3 import KIND as S3
from vfolders.storage.base import StorageBackend
from vfolders.storage.commands import Commands
from vfolders.storage.descriptors import Owner
from vfolders.storage.kinds import HostKind, HostSettings

OWNER = Owner(uid=4321, gid=8765) if os.geteuid() == 0 else Owner(uid=os.geteuid(), gid=os.getegid())
MIB = 2**20


@contextmanager
def local(directory: Path) -> Iterator[StorageBackend]:
    yield LocalStorage(str(directory / "root"), OWNER)


@contextmanager
def loop(directory: Path) -> Iterator[StorageBackend]:
    yield LoopStorage(str(directory / "root"), OWNER, Commands(), default_bytes=512 * MIB)


@contextmanager
def btrfs(directory: Path) -> Iterator[StorageBackend]:
    image = str(directory / "image")
    yield BtrfsStorage(str(directory / "root"), OWNER, Commands(), device=image, image_bytes=1024 * MIB)


def opened(kind: HostKind, directory: Path, **values: str) -> StorageBackend:
    """Return the backend of a host with these settings."""
    checked = kind.check(values, {})
    return kind.open(HostSettings(checked, str(directory), str(directory / "mount"), OWNER))


@contextmanager
def cephfs(directory: Path) -> Iterator[StorageBackend]:
    port = str(free_port())
    # Short, because sockets of Ceph have paths of at most 107 bytes.
    place = Path(mkdtemp(prefix="ceph"))
    with started([str(Path(__file__).with_name("ceph.sh")), str(place), port], directory) as cluster:
        wait_until(lambda: (place / "ready").exists() or cluster.poll() is not None, deadline_s=60)
        key = (place / "admin.keyring").read_text().split("key = ")[1].split()[0]
        yield opened(CEPHFS, directory, monitors=f"v1:127.0.0.1:{port}", key=key)
    shutil.rmtree(place)


GLUSTERD = """volume management
    type mgmt/glusterd
    option working-directory {place}/work
    option run-directory {place}/run
    option transport-type socket
end-volume
"""


@contextmanager
def glusterfs(directory: Path) -> Iterator[StorageBackend]:
    place = Path(mkdtemp(prefix="gluster"))
    for name in ("work", "run", "brick"):
        (place / name).mkdir()
    (place / "glusterd.vol").write_text(GLUSTERD.format(place=place))
    files = ["-f", f"{place}/glusterd.vol", "-l", f"{place}/log", "-p", f"{place}/pid"]
    with started(["glusterd", "--no-daemon", *files], directory):
        wait_until(lambda: gluster("volume", "list"))
        name, address = f"berth{os.getpid()}", own_address()
        assert gluster("volume", "create", name, f"{address}:{place}/brick", "force")
        assert gluster("volume", "start", name)
        try:
            yield opened(GLUSTERFS, directory, server=address, volume=name)
        finally:
            gluster("volume", "stop", name, "force")
            gluster("volume", "delete", name)
    shutil.rmtree(place)


def gluster(*words: str) -> bool:
    return (
        subprocess.run(["gluster", "--mode=script", *words], capture_output=True, check=False).returncode == 0
    )


@contextmanager
def s3fs(directory: Path) -> Iterator[StorageBackend]:
    with bucket(directory) as url:
        yield opened(S3, directory, url=url, bucket="berth", access_key="any", secret_key="any")


@contextmanager
def bucket(directory: Path) -> Iterator[str]:
    """Yield the address of an S3 server with the bucket “berth”."""
    port = free_port()
    with started([sys.executable, "-m", "moto.server", "-p", str(port)], directory):
        wait_until(lambda: is_open(port))
        with urlopen(Request(f"http://127.0.0.1:{port}/berth", method="PUT"), timeout=10):
            yield f"http://127.0.0.1:{port}"


def is_open(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def own_address() -> str:
    """Return an address of this machine that is not the loopback, which GlusterFS refuses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.connect(("192.0.2.1", 9))
        return str(found.getsockname()[0])


@contextmanager
def started(words: list[str], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends; its output goes to a file."""
    with (directory / "server.log").open("wb") as output:
        server = subprocess.Popen(words, stdout=output, stderr=output)
        try:
            yield server
        finally:
            server.terminate()
            server.wait(20)


Maker = Callable[[Path], AbstractContextManager[StorageBackend]]
HOSTS: dict[str, Maker] = {"local": local, "loop": loop, "btrfs": btrfs}
SERVERS: dict[str, Maker] = {"glusterfs": glusterfs, "cephfs": cephfs, "s3fs": s3fs}
