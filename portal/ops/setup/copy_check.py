"""Detects copies of a data directory. A copy has the installation's id, by which engine
objects and the service account's directory are found: two installations with one id would
take these from each other.
"""

from pathlib import Path

from portal.ops.errors import PreflightFailed
from portal.ops.paths import Layout
from portal.ops.setup.env_file import read_env

PLACE = "BERTH_PLACE"
NAME = "BERTH_INSTALLATION"


def check_not_copied(layout: Layout) -> None:
    """Raise PreflightFailed if this is a copy and the original directory is still in place. A moved
    directory may start.
    """
    place = previous_directory(layout)
    if place and read_env(place / "env").get(NAME) == read_env(layout.env_file).get(NAME):
        raise PreflightFailed(
            f"{layout.data} is a copy of {place}: the two would take sessions and databases from each other.",
            f"Start the original: bin/up --data {place}; or stop it and move it away, if the copy shall take its place.",
        )


def check_is_original(layout: Layout) -> None:
    """Raise PreflightFailed unless the data last ran here: objects with its id are then its own."""
    if place := previous_directory(layout):
        raise PreflightFailed(
            f"{layout.data} was copied or moved from {place}: sessions and databases of this name may be those of {place}.",
            f"A copy: rm -r {layout.data}. Data that were moved: bin/up --data {layout.data} once, then purge them.",
        )


def previous_directory(layout: Layout) -> Path | None:
    """Return the directory where bin/up last ran these data, if it is another one."""
    place_before = read_env(layout.env_file).get(PLACE)
    if place_before is None or (Path(place_before).exists() and Path(place_before).samefile(layout.data)):
        return None
    return Path(place_before)
