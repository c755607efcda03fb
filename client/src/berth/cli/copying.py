"""Command `cp`, and the progress display of copies."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from berth.cli import complete
from berth.cli.context import get_client
from berth.cli.exits import FAILED
from berth.cli.output import note, show_tally
from berth.cli.safe_text import clean
from berth.client import Client
from berth.errors import InvalidInput, NotFound
from berth.files import Files
from berth.transfer import QuietWatcher, Watcher

ADDRESS = re.compile(r"(?:(session|folder):)?([^:/]+):(.*)", re.DOTALL)
HINT = "One side is here, the other NAME:PATH, folder:NAME:PATH or session:NAME:PATH."

Source = Annotated[
    str, typer.Argument(help="What to copy.", autocompletion=complete.places, show_default=False)
]
Target = Annotated[str, typer.Argument(help="Where to.", autocompletion=complete.places, show_default=False)]


@dataclass(frozen=True, slots=True)
class Address:
    """Path in a folder or session. `kind` is "" if only the name decides which."""

    kind: str
    name: str
    path: str


def cp(context: typer.Context, source: Source, target: Target) -> None:
    """Copy a file or directory to or from a folder or a running session.

    NAME:PATH is a path in the session or folder of that name. Paths are relative to the folder, and
    in sessions to /home/work unless they begin with a slash. A local path that contains a colon
    must begin with ./

    A file is copied into TARGET if TARGET is a directory or ends with a slash; otherwise TARGET is
    its new name. A directory is copied into TARGET under its own name, even if TARGET does not
    exist, unless TARGET ends in that name already: data to d: and data to d:data mean the same.
    SOURCE/. copies only the contents of a directory, and NAME: as a source is the whole folder.
    Repeating a copy therefore gives the same result.

    Missing directories are created, existing ones merged: a file of the same name is replaced,
    other files stay. A file never replaces a directory, nor a directory a file. Links are skipped.
    An entry that cannot be copied is skipped and reported, and the exit code is 1; a full disk, or
    a folder that is deleted meanwhile, ends the copy. A session receives a directory completely or
    not at all.

    A local TARGET that is a link stays a link, and the file behind it is replaced. A device or
    pipe, like /dev/stdout, is written to.
    """
    there_from, there_to = parse_address(source), parse_address(target)
    if there_from and there_to:
        raise InvalidInput("Both sides are away; copy through this computer in two steps.", hint=HINT)
    client = get_client(context)
    with watching() as watcher:
        if there_to:
            tally = files_at(client, there_to).upload(source, there_to.path, watcher)
        elif there_from:
            tally = files_at(client, there_from).download(there_from.path, target, watcher)
        else:
            raise InvalidInput("Both sides are here; that is what cp is for.", hint=HINT)
    show_tally(tally)
    if tally.failed:
        raise typer.Exit(FAILED)


def parse_address(text: str) -> Address | None:
    """Parse NAME:PATH. Returns None for a local path: no colon, or a slash before the first colon."""
    found = ADDRESS.fullmatch(text)
    return Address(found[1] or "", found[2], found[3]) if found else None


def files_at(client: Client, address: Address) -> Files:
    """Return the files of the live session, or else of the folder, of this name. Raises NotFound."""
    if address.kind == "folder":
        return client.folders.find(address.name).files
    try:
        session = client.sessions.find(address.name)
        if session.is_live or address.kind == "session":
            return session.files
    except NotFound:
        if address.kind == "session":
            raise
    try:
        return client.folders.find(address.name).files
    except NotFound as exc:
        raise NotFound(
            f"There is no live session and no folder “{address.name}”.", hint="See berth ls, berth folder ls."
        ) from exc


@contextmanager
def watching() -> Iterator[Watcher]:
    """Yield a progress bar on a terminal; otherwise a watcher that reports skipped entries only."""
    if not sys.stderr.isatty():
        yield Notes()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=Console(stderr=True, markup=False, highlight=False), transient=True
    ) as bars:
        yield Bar(bars)


class Notes(QuietWatcher):
    """Watcher that reports skipped entries on standard error."""

    def skip(self, name: str, why: str) -> None:
        note(f"left out: {name}: {why}")


class Bar(Notes):
    """Watcher with one progress bar, for the current file."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def begin(self, name: str, size_bytes: int | None) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(clean(name)[:40], total=size_bytes)

    def advance(self, size_bytes: int) -> None:
        if self._task is not None:
            self._bars.advance(self._task, size_bytes)
