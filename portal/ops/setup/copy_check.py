"""Whether a data directory is the installation itself or a copy of it. A copy bears the same name, and by that name go objects on
the engine and quarters outside of the directory: two that claim them would take them from each other."""

from pathlib import Path

from portal.ops.errors import PreflightFailed
from portal.ops.paths import Layout
from portal.ops.setup.env_file import read_env

PLACE = "BERTH_PLACE"
NAME = "BERTH_INSTALLATION"


def check_no_original(layout: Layout) -> None:
    """No other directory is this installation; one that was moved, and is not where it was, may start. Raises PreflightFailed."""
    place = other_place(layout)
    if place and read_env(place / "env").get(NAME) == read_env(layout.env_file).get(NAME):
        raise PreflightFailed(
            f"{layout.data} is a copy of {place}: the two would take sessions and databases from each other.",
            f"Start the original: bin/up --data {place}; or stop it and move it away, if the copy shall take its place.",
        )


def check_is_original(layout: Layout) -> None:
    """The data ran here last, so that what bears their name is theirs. Raises PreflightFailed."""
    if place := other_place(layout):
        raise PreflightFailed(
            f"{layout.data} was copied or moved from {place}: sessions and databases of this name may be those of {place}.",
            f"A copy: rm -r {layout.data}. Data that were moved: bin/up --data {layout.data} once, then purge them.",
        )


def other_place(layout: Layout) -> Path | None:
    """Where bin/up ran these data last, if that is not here; None too for data that no bin/up has marked."""
    told = read_env(layout.env_file).get(PLACE)
    if told is None or (Path(told).exists() and Path(told).samefile(layout.data)):
        return None
    return Path(told)
