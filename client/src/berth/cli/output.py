"""Print results: tables on a terminal, tab-separated lines to a pipe, or JSON."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from berth.amounts import format_bytes
from berth.cli.safe_text import LogFilter, clean, clean_json
from berth.cli.streams import forget
from berth.decoding import Record
from berth.errors import BerthError
from berth.transfer import Tally

STATUS_STYLES = {
    "RUNNING": "green",
    "ERROR": "red",
    "PENDING": "yellow",
    "SCHEDULED": "yellow",
    "PREPARING": "yellow",
    "STARTING": "yellow",
    "lost": "red",
    "connected": "green",
}

LONG_COLUMNS = ("image", "reference", "title", "apps", "why", "portal", "owner")


def is_terminal() -> bool:
    return sys.stdout.isatty()


def say(line: str) -> None:
    """Print one line on standard output, unchanged."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def note(line: str) -> None:
    """Print one line on standard error."""
    try:
        sys.stderr.write(f"{clean(line)}\n")
        sys.stderr.flush()
    except OSError:
        forget(sys.stderr)  # no reader is left, but the command continues


def show_error(error: BerthError) -> None:
    note(f"berth: {error.message}")
    if len(error.fields) > 1:
        for name, problems in error.fields.items():
            note(f"  {name}: {' '.join(map(str, problems))}")
    if error.hint:
        note(f"hint: {error.hint}")


def show_json(value: object) -> None:
    """Print `value` as JSON; records as the portal sent them."""
    say(clean_json(json.dumps(_plain(value), ensure_ascii=False, indent=2 if is_terminal() else None)))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "") -> None:
    """Print a table on a terminal; to a pipe, a header line and rows, separated by tabs."""
    cells = [[clean("" if cell is None else cell) for cell in row] for row in rows]
    if not is_terminal():
        for line in (columns, *cells):
            say("\t".join(line))
        return
    if not cells and empty:
        note(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name in columns:
        shortened = name in ("image", "owner")
        table.add_column(
            name.upper(), overflow="ellipsis" if shortened else "fold", no_wrap=name not in LONG_COLUMNS
        )
    for line in cells:
        table.add_row(*(Text(cell, style=STATUS_STYLES.get(cell, "")) for cell in line))
    console().print(table)


def show_facts(facts: Mapping[str, object]) -> None:
    """Print one object, a line for each fact that is not empty."""
    known = {name: clean(value) for name, value in facts.items() if value not in (None, "", (), [])}
    if not is_terminal():
        for name, value in known.items():
            say(f"{name}\t{value}")
        return
    grid = Table.grid(padding=(0, 2))
    for name, value in known.items():
        grid.add_row(Text(name, style="dim"), Text(value, style=STATUS_STYLES.get(value, "")))
    console().print(grid)


def write_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_log(pieces: Iterable[bytes], *, is_raw: bool = False) -> None:
    """Print a log as it arrives: unchanged to a pipe, without control sequences on a terminal."""
    if is_raw or not is_terminal():
        for piece in pieces:
            write_bytes(piece)
        return
    harmless = LogFilter()
    for piece in pieces:
        write_bytes(harmless(piece))
    write_bytes(harmless.rest())


def show_tally(tally: Tally) -> None:
    """Print a summary of a copy on standard error."""
    files = "1 file" if tally.files == 1 else f"{tally.files} files"
    missing = tally.skipped + tally.failed
    left_out = f"; {missing} left out" if missing else ""
    note(f"{files}, {format_bytes(tally.size_bytes)}{left_out}")


def console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def _plain(value: object) -> Any:
    if isinstance(value, Record):
        return value.raw
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
