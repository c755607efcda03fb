"""Kinds of storage hosts, and the backend of a configured host."""

import os
from collections.abc import Mapping

from django.conf import settings
from django.utils.translation import gettext as _

from common.errors import InvalidInput
from vfolders.storage.backends import (
    btrfs,
    cephfs,
    flashblade,
    glusterfs,
    hdfs,
    local,
    loop,
    nfs,
    onefs,
    ontap,
    project_quota,
    s3,
    smb,
    spectrum_scale,
    vast,
    weka,
)
from vfolders.storage.base import StorageBackend, StorageUnavailable
from vfolders.storage.descriptors import Owner
from vfolders.storage.kinds import HostKind, HostSettings

KINDS: dict[str, HostKind] = {
    kind.name: kind
    for kind in (
        local.KIND,
        btrfs.KIND,
        loop.KIND,
        project_quota.EXT4,
        project_quota.XFS,
        nfs.KIND,
        smb.KIND,
        cephfs.KIND,
        glusterfs.KIND,
        s3.KIND,
        hdfs.KIND,
        ontap.KIND,
        flashblade.KIND,
        onefs.KIND,
        spectrum_scale.KIND,
        weka.KIND,
        vast.KIND,
    )
}
MOUNTS = "mounts"
"""Directory below the data directory with the mount points of hosts, by their ids."""


def mount_point(mount_name: str) -> str:
    """Return the path at which a host is mounted, beside which its secrets are."""
    return os.path.join(settings.DATA_DIR, MOUNTS, mount_name)


def open_storage(kind: str, values: Mapping[str, str], *, mount_name: str) -> StorageBackend:
    """Return the backend of a host of this kind; `mount_name` is its own directory for mounts.
    Raises StorageUnavailable if the settings are invalid.
    """
    found = KINDS.get(kind)
    if found is None:
        raise StorageUnavailable(_("Berth has no storage hosts of the kind “{kind}”.").format(kind=kind))
    try:
        checked = found.check({name: value for name, value in values.items() if value}, {})
    except InvalidInput as error:
        raise StorageUnavailable(
            _("The storage host is set up wrongly: {error}").format(error=error.message)
        ) from error
    return found.open(
        HostSettings(
            values=checked,
            data_dir=str(settings.DATA_DIR),
            mount_point=mount_point(mount_name),
            owner=Owner(uid=settings.BERTH_CONTAINER_UID, gid=settings.BERTH_CONTAINER_GID),
        )
    )
