"""Modes of folders: what a folder is for, and which names and owners fit. Pure."""

from enum import StrEnum

from common.i18n import gettext as _
from vfolders.core.paths import UnsafePath, parse_automatic_name, parse_folder_name


class FolderMode(StrEnum):
    GENERAL = "general"
    AUTO_MOUNT = "auto_mount"  # mounted at /home/work/<name> in all sessions of its owner
    DATA = "data"
    MODEL = "model"  # mounted read-only unless asked otherwise
    PIPELINE = "pipeline"


def parse_name_of_mode(text: str, mode: FolderMode) -> str:
    """Return `text` if a folder of this mode may have that name: the name of an automatically mounted
    folder begins with a dot, no other does. Raises UnsafePath.
    """
    is_automatic = mode is FolderMode.AUTO_MOUNT
    if text.startswith(".") == is_automatic:
        return parse_automatic_name(text) if is_automatic else parse_folder_name(text)
    if is_automatic:
        raise UnsafePath(_("The name of an auto-mount folder begins with a dot, like .cache."))
    raise UnsafePath(_("Only auto-mount folders have names that begin with a dot."))
