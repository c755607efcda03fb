"""Storage backend: directories of this machine, or of a file system that an administrator mounts."""

import os

from django.utils.translation import gettext_lazy as _

from vfolders.storage.backends.directories import DirectoryStorage
from vfolders.storage.kinds import HostKind, HostSettings, Setting


class LocalStorage(DirectoryStorage):
    """Directories of this machine, or of a network file system mounted on it."""


ROOT = Setting(
    "root",
    _("Directory"),
    _("On the portal's machine; relative to the data directory, or absolute."),
    pattern=r"[^\s,-][^,]*",
    example="folders",
)


def root_of(settings: HostSettings) -> str:
    """Return the absolute path of the setting ROOT."""
    return os.path.join(settings.data_dir, settings["root"])


KIND = HostKind(
    name="local",
    title=_("Directory"),
    summary=_("Directories of the portal's machine, or of a file system that you mount there yourself."),
    open=lambda settings: LocalStorage(root_of(settings), settings.owner),
    settings=(ROOT,),
)
