"""Commands `user import`: create and change users from a CSV file."""

import csv
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TextIO

import typer

from berth.cli.context import AsJson, get_client
from berth.cli.exits import FAILED
from berth.cli.input_files import read_bytes
from berth.cli.output import note, show_json, show_table
from berth.errors import InvalidInput, WaitedTooLong
from berth.people_imports import SignInLink, UserImport, UserImportRow, UserImports

MOST_BYTES = 16 * 2**20  # the portal enforces its own limit
OUTCOMES = ("new", "changed", "unchanged", "refused")


Links = Annotated[
    Path | None,
    typer.Option(
        "--links",
        metavar="FILE",
        help="Write first sign-in links of new users to this CSV file, readable only by you.",
        show_default=False,
    ),
]


def import_users(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="CSV file in UTF-8 with a header line; “-” is standard input.",
            show_default=False,
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what each row would do.")] = False,
    links: Links = None,
    patience_s: Annotated[
        int,
        typer.Option(
            "--timeout",
            help="Seconds to wait until all rows are done; the import continues afterwards.",
            min=1,
        ),
    ] = 3600,
    as_json: AsJson = False,
) -> None:
    """Create and change users from a CSV file. Valid rows are applied one by one; the others are
    listed with their errors.

    Columns: email, name, role, projects (separated by spaces), policy, domain; only email is
    required. Importing the same file again changes nothing. The exit code is 1 if a row was
    refused.
    """
    if links and dry_run:
        raise InvalidInput("A dry run adds nobody, so there are no links.", hint="Leave --links out.")
    imports = get_client(context).user_imports
    if links:
        _open_private(links).close()  # fails before links are created that could not be written
    found = imports.check(
        read_bytes(file, most_bytes=MOST_BYTES), name=Path(file).name if file != "-" else "people.csv"
    )
    if not dry_run:
        started = imports.start(found.id)
        try:
            found = imports.wait_finished(started, timeout_s=patience_s, watcher=_Progress())
        except WaitedTooLong as error:
            if links:
                error.hint += f" --links {shlex.quote(str(links))}"
            raise
    if links:
        _write_links(links, imports.links(found.id))
    _report(imports, found, is_dry_run=dry_run, as_json=as_json)


def show_import(
    context: typer.Context,
    number: Annotated[
        int, typer.Argument(metavar="NUMBER", help="Number of the import.", show_default=False)
    ],
    links: Links = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a user import, and refused rows. The exit code is 1 if there are any."""
    imports = get_client(context).user_imports
    found = imports.get(number)
    if links:
        _open_private(links).close()
        _write_links(links, imports.links(number))
    _report(imports, found, is_dry_run=found.started_at is None, as_json=as_json)


def _report(imports: UserImports, found: UserImport, *, is_dry_run: bool, as_json: bool) -> None:
    rows = list(imports.rows(found.id, outcome="" if as_json or is_dry_run else "refused"))
    if as_json:
        show_json({**found.raw, "rows": [row.raw for row in rows]})
    else:
        _show(found, rows, is_dry_run=is_dry_run)
    if found.counts.get("refused"):
        raise typer.Exit(FAILED)


class _Progress:
    """Print the progress on standard error when it has changed."""

    def __init__(self) -> None:
        self._shown = 0

    def __call__(self, found: UserImport) -> None:
        if found.done != self._shown:
            note(f"{found.done} of {found.to_do} rows")
            self._shown = found.done


def _show(found: UserImport, rows: Sequence[UserImportRow], *, is_dry_run: bool) -> None:
    shown = [row for row in rows if row.outcome != "unchanged"]
    table = [
        (row.number, row.values.get("email", ""), row.outcome, ", ".join(row.changes), _faults(row))
        for row in shown
    ]
    show_table(("row", "e-mail", "outcome", "changes", "why not"), table)
    counts = ", ".join(f"{found.counts[name]} {name}" for name in OUTCOMES if found.counts.get(name))
    if is_dry_run:
        note(f"Nobody was changed. It would be: {counts}.")
    elif found.finished_at is None:
        note(f"{found.done} of {found.to_do} rows are done, and it goes on.")
    else:
        note(f"Done: {counts}.")


def _faults(row: UserImportRow) -> str:
    return "; ".join(
        sentence if name == "line" else f"{name}: {sentence}" for name, sentence in row.faults.items()
    )


def _open_private(path: Path) -> TextIO:
    """Open a file with mode 0600, because a link signs its holder in. Does not truncate it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "w", encoding="utf-8", newline="")


def _write_links(path: Path, links: Sequence[SignInLink]) -> None:
    with _open_private(path) as file:
        file.truncate()
        writer = csv.writer(file)
        writer.writerow(("email", "link"))
        writer.writerows((_cell(one.email), one.sign_in_url) for one in links)
    note(f"{len(links)} links in {path}")


def _cell(text: str) -> str:
    """Return `text` so that a spreadsheet does not read it as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
