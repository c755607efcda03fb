"""Base of storage backends on a network file system that Berth mounts on this machine."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from vfolders.storage import mounts
from vfolders.storage.backends.directories import DirectoryStorage
from vfolders.storage.base import StorageUnavailable
from vfolders.storage.kinds import OPTIONS, HostSettings, Setting

MOUNT_OPTIONS = Setting(
    "options",
    gettext_lazy("Further mount options"),
    gettext_lazy("Joined by commas."),
    pattern=OPTIONS,
    example="noatime,nconnect=4",
    is_required=False,
)


class MountedStorage(DirectoryStorage):
    """Directories of a share that `attach` mounts at its own place. A share that is not mounted is
    unavailable; nothing is ever written to the empty directory below it.
    """

    is_mounted_by_berth = True

    def __init__(self, settings: HostSettings) -> None:
        super().__init__(settings.mount_point, settings.owner)
        self.settings = settings
        self.commands = settings.commands

    @abstractmethod
    def mount_command(self) -> Sequence[str]:
        """Return the command that mounts the share at `self.root`. Holds no secret."""

    @abstractmethod
    def programs(self) -> tuple[str, ...]:
        """Return the names of programs that the host needs on this machine."""

    def mount_environment(self) -> Mapping[str, str]:
        """Return variables with secrets for the command; may write them to a file."""
        return {}

    def attach(self) -> None:
        environment = self.mount_environment()
        mounts.mount_once(self.root, self.mount_command(), self.commands, environment=environment)

    def detach(self) -> None:
        mounts.unmount(self.root, self.commands)

    def prepare(self) -> None:
        self.attach()

    def lacks(self) -> tuple[str, ...]:
        return self.commands.lacking(self.programs())

    def options(self, *words: str) -> str:
        """Return the option -o of mount: these, the administrator's, and last, so that they count, the safe ones."""
        given = (*words, self.settings["options"], mounts.SAFE_OPTIONS)
        return ",".join(filter(None, given))

    @contextmanager
    def opened_root(self) -> Iterator[int]:
        if not mounts.is_mounted(self.root):
            raise StorageUnavailable(
                _("The storage host is not mounted on the portal's machine."), hint=_("Ask an administrator.")
            )
        with super().opened_root() as root:
            yield root

    def path_of(self, folder_id: UUID) -> str:
        return f"{self.root}/{folder_id.hex}"
