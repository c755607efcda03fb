"""Tables of folders, shares and storage hosts."""

from vfolders.models.folder import StorageHost, VFolder
from vfolders.models.share import FolderShare

__all__ = ["FolderShare", "StorageHost", "VFolder"]
