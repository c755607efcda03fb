"""Commands `array`: list, show and stop array jobs. `berth run --array` creates one."""

from typing import Annotated

import typer

from berth.amounts import format_age, format_instant
from berth.arrays import SessionArray
from berth.cli.context import AsJson, get_client
from berth.cli.output import is_terminal, note, say, show_facts, show_json, show_table

app = typer.Typer(no_args_is_help=True, help="Array jobs: many batch sessions of one request.")
ID_LENGTH = 8

ArrayName = Annotated[
    str,
    typer.Argument(
        metavar="ARRAY", help="Name, or id or a beginning of it; the newest of a name.", show_default=False
    ),
]


@app.command("ls")
def list_arrays(context: typer.Context, as_json: AsJson = False) -> None:
    """List array jobs and their progress, newest first."""
    found = list(get_client(context).arrays.list())
    if as_json:
        show_json(found)
        return
    rows = [
        (
            one.id[:ID_LENGTH] if is_terminal() else one.id,
            one.name,
            one.spec,
            progress_words(one),
            one.project,
            format_age(one.created_at),
        )
        for one in found
    ]
    none = "None. Start one: berth run IMAGE --array 1-100%10 -- COMMAND."
    show_table(("id", "name", "array", "elements", "project", "age"), rows, empty=none)


@app.command("show")
def show(context: typer.Context, array: ArrayName, as_json: AsJson = False) -> None:
    """Show one array job and its elements."""
    client = get_client(context)
    found = client.arrays.find(array)
    if as_json:
        show_json(found)
        return
    show_facts(
        {
            "id": found.id,
            "name": found.name,
            "array": found.spec,
            "at once": found.most_at_once or "any number",
            "elements": f"{found.count}: {progress_words(found)}",
            "succeeded": found.succeeded,
            "owner": found.owner,
            "project": f"{found.domain}/{found.project}",
            "created": format_instant(found.created_at),
        }
    )
    if is_terminal():
        say("")
        elements = sorted(client.arrays.elements(found.id), key=lambda one: one.array_index or 0)
        rows = [
            (one.array_index, one.name, one.status, one.exit_code, one.status_message) for one in elements
        ]
        show_table(("index", "name", "status", "exit code", "why"), rows)


@app.command("stop")
def stop(context: typer.Context, array: ArrayName, as_json: AsJson = False) -> None:
    """Stop all elements of an array job that have not ended."""
    client = get_client(context)
    stopped = client.arrays.stop(client.arrays.find(array).id)
    if as_json:
        show_json(stopped)
    else:
        note(f"{stopped.name} ({stopped.id[:ID_LENGTH]}): {progress_words(stopped)}")


def progress_words(array: SessionArray) -> str:
    """Summarise an array by status, as in "90 pending (80 on hold), 10 running"."""
    words = []
    for status, count in sorted(array.statuses.items()):
        held = f" ({array.held} on hold)" if status == "PENDING" and array.held else ""
        words.append(f"{count} {status.lower()}{held}")
    return ", ".join(words)
