"""Tables of folders, clones, shares and storage hosts."""

from vfolders.models.clone import FolderClone
from vfolders.models.folder import StorageHost, VFolder
from vfolders.models.share import FolderShare

__all__ = ["FolderClone", "FolderShare", "StorageHost", "VFolder"]
