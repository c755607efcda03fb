"""Tables of folders, clones, shares, storage hosts, and of what WebDAV clients keep about entries."""

from vfolders.models.clone import FolderClone
from vfolders.models.folder import VFolder
from vfolders.models.share import FolderShare
from vfolders.models.storage_host import StorageGrant, StorageHost
from vfolders.models.webdav import DavLock, DavProperty

__all__ = ["DavLock", "DavProperty", "FolderClone", "FolderShare", "StorageGrant", "StorageHost", "VFolder"]
