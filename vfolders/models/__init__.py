"""Tables of folders, clones, shares, storage hosts, sizes, and of what WebDAV clients keep about entries."""

from vfolders.models.clone import FolderClone
from vfolders.models.folder import VFolder
from vfolders.models.share import FolderShare
from vfolders.models.storage_host import StorageGrant, StorageHost
from vfolders.models.usage import DirectoryCount, QuotaWarning, SizeSample
from vfolders.models.webdav import DavLock, DavProperty

__all__ = [
    "DavLock",
    "DavProperty",
    "DirectoryCount",
    "FolderClone",
    "FolderShare",
    "QuotaWarning",
    "SizeSample",
    "StorageGrant",
    "StorageHost",
    "VFolder",
]
