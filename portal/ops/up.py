"""bin/up: sets up and runs a portal, in the foreground until Ctrl-C or bin/down."""

import argparse
import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from portal.ops.console import speaker
from portal.ops.engine.image_recipe import read_recipe
from portal.ops.errors import PreflightFailed
from portal.ops.locks import directory_lock, running, setup_lock
from portal.ops.paths import Layout, find_layout
from portal.ops.processes import marker_environment, stop_leftovers
from portal.ops.services.portal_processes import Portal
from portal.ops.services.startup_page import startup_page
from portal.ops.services.supervisor import ServiceFailed
from portal.ops.setup import preflight
from portal.ops.setup.assets import ensure_assets
from portal.ops.setup.copy_check import PLACE, check_not_copied
from portal.ops.setup.env_file import read_env, updated, write_env
from portal.ops.setup.role import NAME as ROLE
from portal.ops.setup.role import Role, choose_role
from portal.ops.setup.venv import ensure_venv, run_in_venv
from portal.ops.system import is_root

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8080

say = speaker("up")


def main() -> int:
    options = parse_options()
    layout = find_layout(options.data)
    os.environ.pop("PYTHONPATH", None)  # bin/with-python set it for this process only
    signal.signal(signal.SIGTERM, interrupt)
    os.umask(0o022)
    try:
        preflight.check_python()
        preflight.check_data_directory(layout)
        role = choose_role(layout, options.role)
        if not role.joins:
            check_not_copied(layout)
        layout.data.mkdir(parents=True, exist_ok=True)
        # Root's servers run as nobody and must pass through; secret files have their own modes.
        layout.data.chmod(0o711 if is_root() else 0o700)
        with running(layout) as is_first:
            if not is_first:
                say(
                    f"Berth is running already: {read_env(layout.env_file).get('BERTH_URL', 'it is just starting')}"
                )
                return 0
            return bring_up(options, layout, role)
    except PreflightFailed as fault:
        say(f"{fault.message}\nfix: {fault.fix}")
    except ServiceFailed as fault:
        say(f"{fault}")
    except PermissionError as fault:
        say(
            f"This user may not use {fault.filename}.\nfix: run bin/up as its owner, or from a checkout of your own"
        )
    except KeyboardInterrupt:
        say("interrupted; run bin/up again to go on")
    return 1


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bin/up", description="Start Berth; the first time, install all it needs."
    )
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help=f"port to listen on (default: {DEFAULT_PORT})"
    )
    parser.add_argument(
        "--host", default=DEFAULT_HOST, help="address to listen on (default: %(default)s, only this machine)"
    )
    parser.add_argument(
        "--role",
        choices=[role.value for role in Role],
        default="",
        help="what to run: all (default), or web or worker beside a portal with all, on the same PostgreSQL and Redis",
    )
    parser.add_argument("--data", metavar="DIR", help="where all data go (default: var in the checkout)")
    parser.add_argument(
        "--no-demo", action="store_true", help="make only a superadmin; no demo project and people"
    )
    parser.add_argument("--no-image", action="store_true", help="do not build the session image berth/python")
    return parser.parse_args()


def bring_up(options: argparse.Namespace, layout: Layout, role: Role) -> int:
    began_at = time.monotonic()
    stop_leftovers(layout.data)
    preflight.check_disk(layout.data)
    if not role.has_web:
        return set_up_and_run(options, layout, role, began_at=began_at)
    preflight.check_port(options.host, options.port)
    with startup_page(options.host, options.port) as close_startup_page:
        return set_up_and_run(options, layout, role, began_at=began_at, close_startup_page=close_startup_page)


def set_up_and_run(
    options: argparse.Namespace,
    layout: Layout,
    role: Role,
    *,
    began_at: float,
    close_startup_page: Callable[[], None] = lambda: None,
) -> int:
    write_settings(options, layout, role)
    has_image = not (options.no_image or role.joins)
    with directory_lock(layout.checkout, is_shared=True):
        with setup_lock(layout.checkout, say):
            ensure_venv(layout, say)
            if not role.joins:
                run_in_venv(layout, "portal.ops.engine.install", str(layout.data))
            environment = portal_environment(layout)
            image = BackgroundStep(lambda: build_image(layout) if has_image else None)
            ensure_assets(layout, environment, say)
            image.wait()
        reference = read_recipe().reference if has_image else ""
        portal = Portal(layout, environment, host=options.host, port=options.port, image=reference, role=role)
        running_portal = portal.run(
            has_demo=not options.no_demo, began_at=began_at, before_web=close_startup_page
        )
        return asyncio.run(running_portal)


def write_settings(options: argparse.Namespace, layout: Layout, role: Role = Role.ALL) -> None:
    """Update the env file for this run: generate missing values, and set addresses from the options. A
    portal that joins others keeps what it was given.
    """
    values = read_env(layout.env_file)
    if role.joins:
        values[ROLE] = role.value
    else:
        given = {name for name in ("DATABASE_URL", "REDIS_URL") if os.environ.get(name)}
        values = updated(values, host=options.host, port=options.port, is_given=given)
    write_env(layout.env_file, {**values, PLACE: str(layout.data.resolve())})


def portal_environment(layout: Layout) -> dict[str, str]:
    """Return the environment of all processes: the env file, overridden by the caller's."""
    caller = {
        name: value
        for name, value in os.environ.items()
        if value or name not in ("DATABASE_URL", "REDIS_URL")
    }
    return {
        **read_env(layout.env_file),
        **caller,
        "BERTH_DATA": str(layout.data),
        "PYTHONUNBUFFERED": "1",
        "MALLOC_ARENA_MAX": "2",  # limits memory with several threads
        **marker_environment(layout.data),
    }


def build_image(layout: Layout) -> None:
    """Build the session image if the engine lacks it. Raises PreflightFailed."""
    run_in_venv(layout, "portal.ops.engine.session_image", str(layout.data))


class BackgroundStep:
    """Step that runs concurrently in a daemon thread, so that an interrupted bin/up can end."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the step; raises its exception."""
        self._thread.join()
        if self._fault:
            raise self._fault

    def _run(self) -> None:
        try:
            self._step()
        except BaseException as fault:  # noqa: BLE001 -- handed to the thread that waits
            self._fault = fault


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
