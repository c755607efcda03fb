"""Storage hosts that run for real on this machine: on its disk, and on servers of their own."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from vfolders.storage.backends.btrfs import BtrfsStorage
from vfolders.storage.backends.local import LocalStorage
from vfolders.storage.backends.loop import LoopStorage
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


Maker = Callable[[Path], AbstractContextManager[StorageBackend]]
HOSTS: dict[str, Maker] = {"local": local, "loop": loop, "btrfs": btrfs}
SERVERS: dict[str, Maker] = {}
