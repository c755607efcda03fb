"""Command `audit`: print the audit log."""

from itertools import islice
from typing import Annotated

import typer

from berth.amounts import format_instant
from berth.cli.context import AsJson, get_client
from berth.cli.output import show_json, show_table


def audit(
    context: typer.Context,
    actor: Annotated[str, typer.Option("--actor", help="E-mail address of the actor.")] = "",
    action: Annotated[str, typer.Option("--action", help="Like sessions.terminate_session.")] = "",
    outcome: Annotated[str, typer.Option("--outcome", help="done, refused or failed.")] = "",
    since: Annotated[
        str, typer.Option("--since", help="Only lines from this time on, like 2026-01-31T08:00:00Z.")
    ] = "",
    until: Annotated[str, typer.Option("--until", help="Only lines before this time.")] = "",
    request: Annotated[str, typer.Option("--request", help="Only lines of the request with this id.")] = "",
    own: Annotated[
        bool, typer.Option("--own", help="Only your own actions, and those done in your name.")
    ] = False,
    most: Annotated[int, typer.Option("--most", "-n", min=1, help="Maximum number of lines.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the entries of the audit log that you may read, newest first."""
    lines = get_client(context).audit(
        actor=actor,
        action=action,
        outcome=outcome,
        since=since,
        until=until,
        request_id=request,
        own=int(own),
    )
    found = list(islice(lines, most))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            format_instant(one.recorded_at),
            one.actor,
            one.action,
            one.object,
            one.outcome,
            one.ip,
            one.count if one.count > 1 else "",
        )
        for one in found
    ]
    show_table(("when", "who", "what", "on", "outcome", "from", "times"), rows, empty="No line.")
