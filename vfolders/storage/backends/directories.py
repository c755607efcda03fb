"""Base of storage backends that keep folders as directories `<root>/<folder id>`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from django.utils.translation import gettext as _

from vfolders.core.paths import ROOT
from vfolders.storage import descriptors
from vfolders.storage.base import Space, StorageBackend, StorageUnavailable
from vfolders.storage.descriptors import Owner, closing
from vfolders.storage.files import translated


class DirectoryStorage(StorageBackend):
    """Directories below a root of this machine.

    The root belongs to the portal only (mode 0700); the content of a folder belongs to the user of the
    containers. A missing root means that the host is away: nothing is made anew, nothing counts as deleted.
    """

    def __init__(self, root: str, owner: Owner) -> None:
        super().__init__(owner)
        self.root = root

    def prepare(self) -> None:
        try:
            os.makedirs(self.root, mode=0o700, exist_ok=True)
        except OSError as error:
            sentence = _("The directory {path} cannot be made: {error}.")
            raise StorageUnavailable(sentence.format(path=self.root, error=error.strerror)) from error
        self.attach()

    def attach(self) -> None:
        return

    def lacks(self) -> tuple[str, ...]:
        return ()

    def space(self) -> Space:
        with self.opened_root() as root:
            status = os.fstatvfs(root)
        return Space(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)

    def create_folder(self, folder_id: UUID, *, quota_bytes: int | None = None) -> None:
        with self.opened_root() as root, translated(ROOT), suppress(FileExistsError):
            descriptors.make_directory(root, folder_id.hex, self.owner)

    def delete_folder(self, folder_id: UUID) -> None:
        with self.opened_root() as root, translated(ROOT), suppress(FileNotFoundError):
            descriptors.remove(root, folder_id.hex)

    def folder_path(self, folder_id: UUID) -> str:
        with self.opened(folder_id):
            return os.path.join(os.path.realpath(self.root), folder_id.hex)

    def _open_folder(self, folder_id: UUID) -> int:
        with self.opened_root() as root:
            return descriptors.open_directory(root, folder_id.hex)

    @contextmanager
    def opened_root(self) -> Iterator[int]:
        """Yield a descriptor of the root. Raises StorageUnavailable."""
        try:
            root = descriptors.open_root(self.root)
        except OSError as error:
            sentence = _("The storage host does not answer: {error}.").format(error=error.strerror)
            raise StorageUnavailable(sentence, hint=_("Ask an administrator.")) from error
        with closing(root):
            yield root
