"""Storage backends: directories of ext4 or XFS with a project quota each.

Both file systems take the commands of the package `quota`. A project id is a number below 2³¹; the link
`<root>/.projects/<number>` to the id of the folder reserves it, so that two folders never share a quota.
"""

import os
from contextlib import suppress
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from vfolders.core.paths import ROOT as FOLDER_ROOT
from vfolders.storage import mounts
from vfolders.storage.backends.directories import DirectoryStorage
from vfolders.storage.backends.local import ROOT, root_of
from vfolders.storage.base import Capability
from vfolders.storage.commands import Commands
from vfolders.storage.descriptors import Owner
from vfolders.storage.files import translated
from vfolders.storage.kinds import HostKind

PROJECTS = ".projects"
FIRST_ID, IDS = 1000, 2**31 - 1000
KIB = 1024


class ProjectQuotaStorage(DirectoryStorage):
    """`file_system` is ext4 or xfs; it is mounted with the option prjquota.

    Sizes are counted by a walk: an owner may give files another project id, also in a container.
    """

    capabilities = frozenset({Capability.QUOTA})

    def __init__(self, root: str, owner: Owner, commands: Commands, *, file_system: str) -> None:
        super().__init__(root, owner)
        self._commands, self._file_system = commands, file_system

    def prepare(self) -> None:
        super().prepare()
        with translated(FOLDER_ROOT):
            os.makedirs(os.path.join(self.root, PROJECTS), mode=0o700, exist_ok=True)

    def lacks(self) -> tuple[str, ...]:
        missing = self._commands.lacking(["chattr", "setquota"])
        if not os.path.isdir(self.root):
            return missing
        found = mounts.file_system_of(self.root).split(",")
        if found[0] != self._file_system:
            sentence = _("{path} is on {found}, not on {wanted}.")
            return (*missing, str(sentence).format(path=self.root, found=found[0], wanted=self._file_system))
        if not {"prjquota", "pquota"} & set(found):
            sentence = _("{path} is mounted without project quotas. Mount it with the option prjquota.")
            return (*missing, str(sentence).format(path=mounts.mount_point_of(self.root)))
        return missing

    def create_folder(self, folder_id: UUID, *, quota_bytes: int | None = None) -> None:
        super().create_folder(folder_id)
        path = os.path.join(self.root, folder_id.hex)
        self._commands.run(["chattr", "-p", str(self._project_id(folder_id)), "+P", path])
        if quota_bytes is not None:
            self.set_quota(folder_id, quota_bytes)

    def delete_folder(self, folder_id: UUID) -> None:
        super().delete_folder(folder_id)
        project = self._find(folder_id)
        if project is not None:
            self._set_limit(project, 0)
            with suppress(FileNotFoundError):
                os.unlink(self._link(project))

    def set_quota(self, folder_id: UUID, quota_bytes: int | None) -> None:
        self._set_limit(self._project_id(folder_id), max((quota_bytes or 0) // KIB, 1 if quota_bytes else 0))

    def _set_limit(self, project: int, limit_kib: int) -> None:
        point = mounts.mount_point_of(self.root)
        self._commands.run(["setquota", "-P", str(project), "0", str(limit_kib), "0", "0", point])

    def _project_id(self, folder_id: UUID) -> int:
        """Return the folder's project id; the first time, reserve one."""
        found = self._find(folder_id)
        if found is not None:
            return found
        number = folder_id.int
        with translated(FOLDER_ROOT):
            while True:
                with suppress(FileExistsError):
                    project = FIRST_ID + number % IDS
                    os.symlink(folder_id.hex, self._link(project))
                    return project
                number += 1

    def _find(self, folder_id: UUID) -> int | None:
        with translated(FOLDER_ROOT):
            for name in os.listdir(os.path.join(self.root, PROJECTS)):
                with suppress(FileNotFoundError):
                    if os.readlink(self._link(int(name))) == folder_id.hex:
                        return int(name)
        return None

    def _link(self, project: int) -> str:
        return os.path.join(self.root, PROJECTS, str(project))


def _kind(name: str, title: str) -> HostKind:
    return HostKind(
        name=name,
        title=title,
        summary=_("Directories of a file system that is mounted with project quotas (prjquota)."),
        open=lambda settings: ProjectQuotaStorage(
            root_of(settings), settings.owner, settings.commands, file_system=name
        ),
        settings=(ROOT,),
        capabilities=ProjectQuotaStorage.capabilities,
        is_simulated=True,
        programs=("chattr", "setquota"),
        needs=_("quota, e2fsprogs; a kernel with quotas; root"),
    )


EXT4 = _kind("ext4", "ext4")
XFS = _kind("xfs", "XFS")
