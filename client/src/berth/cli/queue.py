"""Command `queue`: list the pending sessions of a resource group."""

from itertools import islice
from typing import Annotated

import typer

from berth.amounts import format_age, format_slots
from berth.cli.context import AsJson, client_of
from berth.cli.output import show_json, show_table


def queue(
    context: typer.Context,
    group: Annotated[
        str,
        typer.Argument(metavar="[GROUP]", help="Its name; your usual one if not given.", show_default=False),
    ] = "",
    most: Annotated[int, typer.Option("--most", min=1, help="So many of the first.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the pending sessions of a resource group in order. For sessions of others, you see only
    the size and the wait time.
    """
    places = list(islice(client_of(context).queue(group), most))
    if as_json:
        show_json(places)
        return
    rows = [
        (
            one.position,
            one.name or "someone",
            "you" if one.is_own else one.owner,
            format_slots(one.resources) + (f" x {one.containers}" if one.containers > 1 else ""),
            format_age(one.since),
            one.message,
        )
        for one in places
    ]
    show_table(("place", "session", "of", "asks for", "since", "why"), rows, empty="Nobody waits.")
