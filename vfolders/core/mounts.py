"""Mounts of folders on machines: paths that they share, and options of volumes. Pure."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from common.i18n import gettext as _
from vfolders.core.paths import EntryPath

SECRET = "{secret}"
VOLUME_TYPES = ("nfs", "nfs4", "cifs", "ceph", "none")
"""Types of file system that a volume may have; `none` with the option `bind` is a path of the machine."""
MAX_OPTION = 1000
# Prevents devices and programs on a share from being used as such; engines add nothing of their own.
SAFE = ("nosuid", "nodev")


class InvalidMount(ValueError):
    """A path or an option that no machine can mount; the text says why. `field` is the wrong one."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True, slots=True)
class FolderMount:
    """A folder on a machine: the directory `source`, or, with `options` of Docker's `local` driver, a
    volume. The options may hold a password.
    """

    source: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


def directory_mount(whole: FolderMount, path: EntryPath) -> FolderMount:
    """Return the mount of the directory `path` in a folder: a volume, which can be held and looked at
    before a session gets it. The engine follows links on the way, so it must be looked at.
    """
    inside = "/".join(path)
    if whole.options:
        return FolderMount(options={**whole.options, "device": f"{whole.options['device']}/{inside}"})
    return FolderMount(options={"type": "none", "o": "bind", "device": f"{whole.source}/{inside}"})


def path_mount(root: str, name: str) -> FolderMount:
    """Return the mount of the folder `name` below a path that machines share."""
    return FolderMount(posixpath.join(root, name))


def volume_mount(options: Mapping[str, str], secret: str, name: str) -> FolderMount:
    """Return the mount of the folder `name` of a share: a volume of its own, since engines older than 26
    cannot mount a part of a volume.
    """
    words = options.get("o", "").replace(SECRET, secret).split(",")
    words += [word for word in SAFE if word not in words]
    device = f"{options['device'].rstrip('/')}/{name}"
    return FolderMount(options={**options, "o": ",".join(filter(None, words)), "device": device})


def check_agent_path(path: str) -> str:
    """Return the path on machines. Raises InvalidMount."""
    if not path.startswith("/") or path != posixpath.normpath(path) or path == "/" or not path.isprintable():
        raise InvalidMount(
            "agent_path", _("Write an absolute path without “..” and a final slash, like /srv/folders.")
        )
    return path


def check_volume_options(options: Mapping[str, str], secret: str) -> dict[str, str]:
    """Return the options of a volume. Raises InvalidMount."""
    kind, words, device = (options.get(name, "").strip() for name in ("type", "o", "device"))
    if kind not in VOLUME_TYPES:
        raise InvalidMount("type", _("Choose one of: {types}.").format(types=", ".join(VOLUME_TYPES)))
    for name, text in (("o", words), ("device", device)):
        if len(text) > MAX_OPTION or not text.isprintable() or re.search(r"\s", text):
            raise InvalidMount(
                name, _("Write at most {most} characters without spaces.").format(most=MAX_OPTION)
            )
    if not re.fullmatch(_DEVICES[kind], device):
        raise InvalidMount("device", _("Write it like {example}.").format(example=_EXAMPLES[kind]))
    if kind == "none" and "bind" not in words.split(","):
        raise InvalidMount("o", _("The type “none” needs the option bind."))
    if "{" in words.replace(SECRET, "") or (SECRET in words and not secret):
        raise InvalidMount(
            "o", _("{secret} stands for the password, which is missing.").format(secret=SECRET)
        )
    if "," in secret:
        raise InvalidMount("secret", _("A password with a comma cannot be an option of a mount."))
    if re.search(r"(^|,)(password|pass|secret)=(?!\{secret\})", words):
        raise InvalidMount(
            "o",
            _("Write {secret} for the password, and the password into its own field.").replace(
                "{secret}", SECRET
            ),
        )
    return {"type": kind, "o": words, "device": device}


_DEVICES = {
    "nfs": r"[^/]*:/.*",
    "nfs4": r"[^/]*:/.*",
    "cifs": r"//[^/]+/.+",
    "ceph": r"[^/]+:/.*",
    "none": r"/[^/].*",
}
_EXAMPLES = {
    "nfs": ":/export/folders",
    "nfs4": ":/export/folders",
    "cifs": "//server/share/folders",
    "ceph": "10.0.0.5:6789:/folders",
    "none": "/srv/folders",
}
