"""Removes all traces of an installation: engine objects, data, build output in the checkout."""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from portal.ops.console import Say
from portal.ops.errors import PreflightFailed
from portal.ops.locks import directory_lock, holders, setup_lock
from portal.ops.paths import Layout
from portal.ops.setup.copy_check import check_is_original
from portal.ops.setup.env_file import read_env
from portal.ops.setup.role import role_of
from portal.ops.setup.venv import ensure_venv, run_in_venv, runs

REMOVED_AT_ONCE = 8
UMOUNT_S = 60
BRANCH_DEPTH = 4  # packages in .venv/lib/python3.11/site-packages
# What a portal that joined others has for itself; roots of storage hosts are beside it.
OWN_OF_A_PART = frozenset(
    {"connections", "env", "lives", "logs", "machines.json", "mounts", "up.lock", "uploads"}
)


def purge(layout: Layout, log: Say) -> None:
    """Remove everything; the portal must be stopped. The engine itself and Debian packages stay.

    The engine is accessed from .venv, which is recreated if missing or broken: otherwise
    containers would stay that cannot be identified any more. Raises PreflightFailed if that
    fails, and for a copy.

    Of a portal that joined others only its own data directory goes, without their folders.
    """
    check_is_original(layout)
    is_part = role_of(layout).joins
    if is_part:
        log("other portals share the engines, the database and the folders, so these stay")
    if not is_part and "BERTH_ENGINE" in read_env(layout.env_file):
        if not runs(layout.python, "-c", "import docker"):
            with setup_lock(layout.checkout, log):
                ensure_venv(layout, log)
        run_in_venv(layout, "portal.ops.engine.objects", str(layout.data))
    with directory_lock(layout.checkout, waits=False) as is_ours_alone:
        purge_data(layout, log)
        if is_ours_alone:
            purge_checkout(layout, log)
        else:
            log(
                f"bin/up on other data, tests or a bench run from this checkout ({holders(layout.checkout)}): "
                ".venv, node_modules and assets stay"
            )


def purge_data(layout: Layout, log: Say) -> None:
    """Remove the data directory, and the servers' directory outside of it if it has our id."""
    values = read_env(layout.env_file)
    if layout.service_home_link.is_symlink():
        service_home = Path(os.readlink(layout.service_home_link))
        if service_home.name == values.get("BERTH_INSTALLATION"):
            remove_tree(service_home, log)
            if service_home.parent.is_dir() and not any(service_home.parent.iterdir()):
                service_home.parent.rmdir()
    was_only_tried = layout.data.is_dir() and {entry.name for entry in layout.data.iterdir()} == {"up.lock"}
    if not (layout.env_file.exists() or was_only_tried):
        return
    is_part = role_of(layout).joins
    for entry in set(layout.data.iterdir()) - layout.foreign_paths:
        if entry.name in OWN_OF_A_PART or not is_part:
            unmount_below(entry, log)
            remove_tree(entry, log)
    if not any(layout.data.iterdir()):
        layout.data.rmdir()


def unmount_below(directory: Path, log: Say) -> None:
    """Unmount storage hosts and images of folders at and below the directory, the last mounted first, so that
    nothing on a server is removed. Raises PreflightFailed if one stays.
    """
    for point in reversed(mounts_below(directory)):
        if not (unmounts(point) or unmounts("--lazy", point)):
            raise PreflightFailed(f"{point} cannot be unmounted.", f"Run: umount --lazy {point}")
        log(f"unmounted {point}")


def unmounts(*words: str) -> bool:
    """Run umount, which waits for ever for a server that is gone; False if it fails or takes too long."""
    try:
        return (
            subprocess.run(["umount", *words], capture_output=True, timeout=UMOUNT_S, check=False).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False


def mounts_below(directory: Path) -> list[str]:
    """Return the mount points below a directory, in the order of their mounts."""
    top = os.path.realpath(directory)
    lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    points = [line.split(" ")[4].encode(errors="surrogateescape") for line in lines]
    names = [re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), point) for point in points]
    return [name for name in map(os.fsdecode, names) if f"{name}/".startswith(f"{top}/")]


def purge_checkout(layout: Layout, log: Say) -> None:
    """Remove build output of bin/up; a .venv or node_modules without its stamp stays."""
    built = {
        layout.venv: layout.venv / "berth-requirements",
        layout.node_modules: layout.node_modules / ".berth-lock",
        layout.assets: layout.static / ".berth-sources",
        layout.languages: layout.static / ".berth-sources",
        layout.static: layout.static / ".berth-sources",
    }
    remove_trees([directory for directory, stamp in built.items() if stamp.exists()], log)
    if layout.assets.parent.is_dir() and not any(layout.assets.parent.iterdir()):
        layout.assets.parent.rmdir()
    foreign = {".venv", "node_modules", ".git", "var"}
    for folder in (
        entry for entry in layout.checkout.iterdir() if entry.is_dir() and entry.name not in foreign
    ):
        for cache in list(folder.rglob("__pycache__")):
            shutil.rmtree(cache, ignore_errors=True)


def remove_trees(directories: Sequence[Path], log: Say) -> None:
    """Remove directories that nobody else writes to, branches at the same time: a file takes a
    millisecond on disks that are mounted with `discard`.
    """
    branches = [branch for directory in directories for branch in branches_of(directory, BRANCH_DEPTH)]
    with ThreadPoolExecutor(REMOVED_AT_ONCE) as pool:
        list(pool.map(lambda branch: remove_tree(branch, log), branches))
    for directory in directories:
        remove_tree(directory, log)


def branches_of(directory: Path, depth: int) -> Iterator[Path]:
    """Yield what is so many levels below a directory; nothing below a link."""
    if depth == 0:
        yield directory
    elif is_directory(directory):
        for entry in directory.iterdir():
            yield from branches_of(entry, depth - 1)


def remove_tree(path: Path, log: Say) -> None:
    """Remove a file or directory; directories without owner permissions are made accessible first.
    Links are not followed.
    """
    tried: set[str] = set()

    def open_and_retry(_: Any, name: str, fault: tuple[Any, Any, Any]) -> None:
        if name in tried:
            return  # reported by the first try
        tried.add(name)
        with contextlib.suppress(OSError):
            if name != str(path):
                os.chmod(os.path.dirname(name), 0o700)
            if is_directory(Path(name)):
                os.chmod(name, 0o700)
                shutil.rmtree(name, onerror=open_and_retry)
            else:
                os.unlink(name)
        if os.path.lexists(name):
            log(f"could not remove {name}: {fault[1].strerror}")

    if is_directory(path):
        shutil.rmtree(path, onerror=open_and_retry)
    else:
        path.unlink(missing_ok=True)


def is_directory(path: Path) -> bool:
    """Return True for a directory, False for a link to one."""
    return path.is_dir() and not path.is_symlink()
