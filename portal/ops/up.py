"""bin/up: from a fresh checkout to a running portal, in the foreground until Ctrl-C or bin/down."""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from portal.ops import preflight
from portal.ops.assets import ensure_assets
from portal.ops.console import speaker
from portal.ops.doorman import at_the_door
from portal.ops.engine import ensure_engine
from portal.ops.engine_api import EngineClient
from portal.ops.engine_objects import mark_presence
from portal.ops.envfile import read_env, updated, write_env
from portal.ops.errors import PreflightFailed
from portal.ops.layout import CHECKOUT, Layout, layout_of
from portal.ops.locks import directory_lock, running, setting_up
from portal.ops.machine import is_root
from portal.ops.originals import PLACE, check_no_original
from portal.ops.portal_processes import Portal
from portal.ops.processes import end_leftovers, mark_of
from portal.ops.session_image import ensure_session_image
from portal.ops.supervisor import CHILD, ServiceFailed
from portal.ops.venv import install_requirements, prepare_venv

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8080

say = speaker("up")


def main() -> int:
    options = parse_options()
    layout = layout_of(options.data)
    os.environ.pop("PYTHONPATH", None)  # bin/with-python set it for this process only
    signal.signal(signal.SIGTERM, interrupt)
    os.umask(0o022)
    try:
        preflight.check_python()
        preflight.check_data_directory(layout)
        check_no_original(layout)
        layout.data.mkdir(parents=True, exist_ok=True)
        # Root's servers run as nobody and must pass through; what is secret in here has modes of its own.
        layout.data.chmod(0o711 if is_root() else 0o700)
        with running(layout) as is_first:
            if not is_first:
                say(
                    f"Berth is running already: {read_env(layout.env_file).get('BERTH_URL', 'it is just starting')}"
                )
                return 0
            return bring_up(options, layout)
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
        "--port",
        type=int,
        default=DEFAULT_PORT,
        help=f"port to listen on (default: {DEFAULT_PORT})",
    )
    parser.add_argument(
        "--host",
        default=DEFAULT_HOST,
        help="address to listen on (default: %(default)s, only this machine)",
    )
    parser.add_argument("--data", metavar="DIR", help="where all data go (default: var in the checkout)")
    parser.add_argument(
        "--no-demo",
        action="store_true",
        help="make only a superadmin; no demo project and people",
    )
    parser.add_argument(
        "--no-image",
        action="store_true",
        help="do not build the session image berth/python",
    )
    return parser.parse_args()


def bring_up(options: argparse.Namespace, layout: Layout) -> int:
    began_at = time.monotonic()
    end_leftovers(layout.data)
    preflight.check_disk(layout.data)
    preflight.check_port(options.host, options.port)
    with at_the_door(options.host, options.port) as leave_door:
        return set_up_and_run(options, layout, began_at=began_at, leave_door=leave_door)


def set_up_and_run(
    options: argparse.Namespace, layout: Layout, *, began_at: float, leave_door: Callable[[], None]
) -> int:
    engine = ensure_engine(say)
    environment = portal_environment(options, layout, engine)
    mark_presence(EngineClient(engine), environment["BERTH_INSTALLATION"])
    with directory_lock(layout.checkout, is_shared=True):
        with setting_up(layout.checkout, say):
            prepare_venv(layout, say)
            image = InBackground(lambda: "" if options.no_image else build_image(layout, engine))
            install_requirements(layout, say)
            ensure_assets(layout, environment, say)
            reference = image.result()
        portal = Portal(layout, environment, host=options.host, port=options.port, image=reference)
        running_portal = portal.run(has_demo=not options.no_demo, began_at=began_at, before_web=leave_door)
        return asyncio.run(running_portal)


def portal_environment(options: argparse.Namespace, layout: Layout, engine: str) -> dict[str, str]:
    """What every process of the portal gets; also writes the env file. The caller's variables win."""
    given = {name for name in ("DATABASE_URL", "REDIS_URL") if os.environ.get(name)}
    values = updated(read_env(layout.env_file), host=options.host, port=options.port, is_given=given)
    values["BERTH_ENGINE"] = engine
    values[PLACE] = str(layout.data.resolve())
    write_env(layout.env_file, values)
    caller = {
        name: value
        for name, value in os.environ.items()
        if value or name not in ("DATABASE_URL", "REDIS_URL")
    }
    return {
        **values,
        **caller,
        "BERTH_DATA": str(layout.data),
        "PYTHONUNBUFFERED": "1",
        "MALLOC_ARENA_MAX": "2",  # several threads, little memory
        **mark_of(layout.data),
    }


def build_image(layout: Layout, engine: str) -> str:
    """The reference of the session image, built where the engine lacks it. Raises PreflightFailed.

    A build takes memory that Python does not give back, so it has a process of its own, which dies with this one.
    """
    build = [sys.executable, "-P", "-m", "portal.ops.session_image", str(layout.data), engine]
    done = subprocess.run(
        [sys.executable, str(CHILD), str(int(signal.SIGTERM)), "-1", "-1", *build],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        message, _, fix = done.stderr.strip().rpartition("\n")
        raise PreflightFailed(message, fix)
    return ensure_session_image(speaker("image"), layout.data, address=engine)


class InBackground:
    """A step that runs beside others; it does not keep an interrupted bin/up alive."""

    def __init__(self, step: Callable[[], str]) -> None:
        self._step = step
        self._value = ""
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self) -> str:
        """Wait for it; raises what it raised."""
        self._thread.join()
        if self._fault:
            raise self._fault
        return self._value

    def _run(self) -> None:
        try:
            self._value = self._step()
        except BaseException as fault:  # noqa: BLE001 -- handed to the thread that waits
            self._fault = fault


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
