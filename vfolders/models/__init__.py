"""Tables of folders, clones, shares, links, operations on files, storage hosts, sizes, and of what WebDAV
clients keep.
"""

from vfolders.models.clone import FolderClone
from vfolders.models.file_operation import FileOperation
from vfolders.models.folder import VFolder
from vfolders.models.link import FolderLink
from vfolders.models.share import FolderShare
from vfolders.models.storage_host import StorageGrant, StorageHost
from vfolders.models.upload import Upload
from vfolders.models.usage import DirectoryCount, QuotaWarning, SizeSample
from vfolders.models.webdav import DavLock, DavProperty

__all__ = [
    "DavLock",
    "DavProperty",
    "DirectoryCount",
    "FileOperation",
    "FolderClone",
    "FolderLink",
    "FolderShare",
    "QuotaWarning",
    "SizeSample",
    "StorageGrant",
    "StorageHost",
    "Upload",
    "VFolder",
]
