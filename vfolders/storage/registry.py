"""Creates the storage backend of a configured host."""

import os
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from vfolders.storage.backends.local import LocalStorage
from vfolders.storage.base import StorageBackend, StorageUnavailable
from vfolders.storage.descriptors import Owner


def open_storage(kind: str, config: Mapping[str, Any]) -> StorageBackend:
    """Return the backend of a host of this kind.
    Raises StorageUnavailable if the configuration is invalid.
    """
    root = config.get("root")
    if kind != "local" or not isinstance(root, str) or not root:
        raise StorageUnavailable(
            _("The storage host is set up wrongly: {kind} needs a root.").format(kind=kind)
        )
    owner = Owner(uid=settings.BERTH_CONTAINER_UID, gid=settings.BERTH_CONTAINER_GID)
    return LocalStorage(os.path.join(settings.DATA_DIR, root), owner)
