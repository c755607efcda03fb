"""Files with secrets that programs of storage hosts read, beside the mount point."""

import os
from contextlib import suppress
from glob import escape, glob


def write_secret_file(path: str, text: str) -> str:
    """Write the file so that only the portal reads it, whole or not at all; return its path."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    made = f"{path}.{os.getpid()}"
    with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
    os.rename(made, path)
    return path


def remove_secret_files(mount_point: str) -> None:
    """Remove everything that stands beside the mount point for its host. Idempotent."""
    for path in glob(f"{escape(mount_point)}.*"):
        with suppress(FileNotFoundError):
            os.unlink(path)
