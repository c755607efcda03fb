"""Install all that the tests need into a fresh clone; `bin/test` and `bin/check` run it first.

Uses the standard library only, except for programs run in .venv.

python -m tests.prepare tools   # .venv, development requirements, client, translations
python -m tests.prepare storage # … and servers of storage systems
python -m tests.prepare all     # … and engine, session image, assets, browser
"""

import os
import shutil
import sys
from collections.abc import Mapping

from portal.ops.console import Say, speaker
from portal.ops.errors import PreflightFailed
from portal.ops.locks import setup_lock
from portal.ops.paths import CHECKOUT, Layout, content_hash, find_layout
from portal.ops.setup.assets import ensure_assets
from portal.ops.setup.venv import ensure_venv, pip_install, run_in_venv
from portal.ops.system import apt_install, can_apt_install, run_step

DEV_REQUIREMENTS = CHECKOUT / "requirements-dev.txt"
STORAGE_REQUIREMENTS = CHECKOUT / "requirements-storage.txt"
CLIENT = CHECKOUT / "client"
STORAGE_SERVERS = {
    "btrfs": "btrfs-progs",
    "ceph": "ceph-common",
    "ceph-fuse": "ceph-fuse",
    "ceph-mds": "ceph-mds",
    "ceph-mgr": "ceph-mgr",
    "ceph-mon": "ceph-mon",
    "ceph-osd": "ceph-osd",
    "fusermount3": "fuse3",
    "gluster": "glusterfs-cli",
    "glusterd": "glusterfs-server",
    "s3fs": "s3fs",
}
say = speaker("test")


def main() -> int:
    layout = find_layout(None)
    os.environ.pop("PYTHONPATH", None)
    try:
        with setup_lock(CHECKOUT, say):
            prepare_tools(layout)
            if sys.argv[1:] == ["all"]:
                prepare_all(layout)
            if sys.argv[1:] == ["storage"]:
                pip_install(layout, STORAGE_REQUIREMENTS, log=say)
                for program, package in STORAGE_SERVERS.items():
                    ensure_program(program, package, say)
    except PreflightFailed as fault:
        say(f"{fault.message}\nfix: {fault.fix}")
        return 1
    return 0


def prepare_tools(layout: Layout) -> None:
    ensure_venv(layout, say)
    stamp_file = layout.venv / "berth-requirements-dev"
    stamp = content_hash([DEV_REQUIREMENTS])
    if not stamp_file.exists() or stamp_file.read_text() != stamp:
        say("installing the pinned development packages")
        pip_install(layout, DEV_REQUIREMENTS, log=say)
        stamp_file.write_text(stamp)
    install_client(layout)
    build_languages(layout)


def build_languages(layout: Layout) -> None:
    """Compile the translations, which tests of pages need even without assets."""
    stamp_file = layout.venv / "berth-languages"
    stamp = content_hash([layout.checkout / "portal" / "locale"])
    if layout.languages.is_dir() and stamp_file.exists() and stamp_file.read_text() == stamp:
        return
    run_step(
        [str(layout.python), "manage.py", "build_languages"],
        title="build_languages",
        fix="The lines above say what is wrong with portal/locale; run bin/test again.",
        log=say,
        environment=settings_environment(layout),
        directory=layout.checkout,
    )
    stamp_file.write_text(stamp)


def install_client(layout: Layout) -> None:
    """Install the command `berth` into the virtual environment from the checkout.

    Needs no network.
    """
    stamp_file = layout.venv / "berth-client"
    stamp = content_hash([CLIENT / "pyproject.toml"])
    if stamp_file.exists() and stamp_file.read_text() == stamp:
        return
    options = (
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
    )
    run_step(
        [str(layout.python), "-m", "pip", "install", *options, "--editable", str(CLIENT)],
        title="Installing the command line client",
        fix="Remove .venv and run bin/test again.",
        log=say,
    )
    stamp_file.write_text(stamp)


def prepare_all(layout: Layout) -> None:
    data = layout.checkout / "var" / "test"
    data.mkdir(parents=True, exist_ok=True)
    run_in_venv(layout, "portal.ops.engine.session_image", str(data))
    ensure_assets(layout, settings_environment(layout), say)
    ensure_program("chromium", "chromium", say)
    ensure_program("btrfs", "btrfs-progs", say)
    ensure_program("busybox", "busybox-static", say)
    ensure_program("faketime", "faketime", say)
    for program in ("litmus", "cadaver", "rclone", "mount.davfs"):  # clients of WebDAV
        ensure_program(program, "davfs2" if program == "mount.davfs" else program, say)
    ensure_program("gcc", "g++", say)  # also installs the headers of the C library


def settings_environment(layout: Layout) -> Mapping[str, str]:
    """Return an environment that is enough for commands of Django that use no server."""
    return {
        **os.environ,
        "BERTH_DATA": str(layout.checkout / "var" / "test"),
        "BERTH_SECRET_KEY": "collects files only",
        "BERTH_INSTALLATION": "teststat",
        "BERTH_URL": "http://localhost:8080",
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
        "REDIS_URL": "redis://127.0.0.1:1/0",
    }


def ensure_program(program: str, package: str, log: Say) -> None:
    """Install a Debian package that only tests need. Raises PreflightFailed."""
    if shutil.which(program):
        return
    if not can_apt_install():
        raise PreflightFailed(f"The tests need {program}.", f"Run: sudo apt-get install -y {package}")
    apt_install(package, log=log)


if __name__ == "__main__":
    sys.exit(main())
