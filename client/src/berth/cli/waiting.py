"""Commands `queue`, `priority` and `why`: list, reorder and explain pending sessions."""

from itertools import islice
from typing import Annotated

import typer

from berth.amounts import format_age, format_instant, format_slots
from berth.cli.context import AsJson, SessionName, get_client
from berth.cli.launch_options import parse_past_instant
from berth.cli.output import note, say, show_facts, show_json, show_table
from berth.cli.safe_text import first_line
from berth.cli.sessions import ID_LENGTH, AnySession


def priority(
    context: typer.Context,
    session: SessionName,
    number: Annotated[
        int,
        typer.Argument(min=-100, max=100, help="From -100 to 100; higher goes first.", show_default=False),
    ],
    as_json: AsJson = False,
) -> None:
    """Change the queue priority of a pending session. Write -- before a number below 0."""
    changed = get_client(context).sessions.find(session).change_priority(number)
    if as_json:
        show_json(changed)
    else:
        note(f"{changed.name} ({changed.id[:ID_LENGTH]}) waits with priority {changed.priority}")


def why(
    context: typer.Context,
    session: AnySession,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            help="Show why it waited at this time, like 14:05 or 2027-01-31T14:05.",
            show_default=False,
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show why and since when a session has been pending, or why it was at some time."""
    client = get_client(context)
    found = client.sessions.why(client.sessions.find(session).id, at=parse_past_instant(at))
    if as_json:
        show_json(found)
    elif not at:
        rows = [
            [
                format_instant(each.since),
                format_instant(each.until) or "now",
                each.position,
                first_line(each.message),
            ]
            for each in found.stays
        ]
        show_table(["since", "until", "position", "why"], rows, empty="It never waited for room.")
    elif found.wait is None:
        say("It did not wait for a machine then, or that is not known any more.")
    else:
        tick = found.wait.tick
        facts: dict[str, object] = {"why": found.wait.message, "since": format_instant(found.wait.since)}
        if tick:
            facts |= {"position": f"{tick.position} of {tick.waiting}", "started then": tick.placed}
        show_facts(facts)


def queue(
    context: typer.Context,
    group: Annotated[
        str,
        typer.Argument(
            metavar="[GROUP]", help="Name of the group; by default your usual one.", show_default=False
        ),
    ] = "",
    most: Annotated[int, typer.Option("--most", min=1, help="Maximum number, from the front.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the pending sessions of a resource group in order. For sessions of others, you see only
    the size and the wait time.
    """
    places = list(islice(get_client(context).queue(group), most))
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
