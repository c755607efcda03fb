"""Commands `group ticks`, `waits` and `preemptions`: scheduler history (superadmins, monitors)."""

from itertools import islice
from typing import Annotated

import typer

from berth.amounts import format_instant
from berth.cli.context import AsJson, client_of
from berth.cli.output import show_json, show_table
from berth.cli.resource_groups import GroupName

Limit = Annotated[int, typer.Option("--limit", help="At most so many, newest first.", min=1)]
US_PER_MS = 1000


def list_ticks(context: typer.Context, group: GroupName, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List recent ticks of a group's scheduler: sessions placed, sessions waiting by reason,
    duration.
    """
    groups = client_of(context).managed_groups
    found = list(islice(groups.ticks(groups.find(group).id), limit))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            format_instant(one.planned_at),
            one.placed,
            one.waiting,
            ", ".join(f"{reason} {count}" for reason, count in one.reasons.items()),
            f"{(one.read_us + one.decide_us + one.commit_us) / US_PER_MS:.1f} ms",
        )
        for one in found
    ]
    show_table(("when", "placed", "waiting", "for", "took"), rows, empty="No tick decided anything lately.")


def show_waits(context: typer.Context, group: GroupName, as_json: AsJson = False) -> None:
    """Show the wait times of the sessions that started in a group in the last hour."""
    groups = client_of(context).managed_groups
    waits = groups.waits(groups.find(group).id)
    if as_json:
        show_json(waits)
        return
    lengths = (waits.half_s, waits.nine_of_ten_s, waits.longest_s)
    row = (waits.started, *(f"{seconds:.2f} s" for seconds in lengths if seconds is not None))
    show_table(
        ("started", "half within", "nine of ten", "longest"),
        [row] if waits.started else [],
        empty="None started.",
    )


def list_preemptions(
    context: typer.Context, group: GroupName, limit: Limit = 20, as_json: AsJson = False
) -> None:
    """List the preemptions in a resource group."""
    groups = client_of(context).managed_groups
    found = list(islice(groups.preemptions(groups.find(group).id), limit))
    if as_json:
        show_json(found)
        return
    rows = [(format_instant(one.decided_at), one.name, one.by_name, one.agent, one.outcome) for one in found]
    show_table(("when", "session", "for", "agent", "outcome"), rows, empty="Nobody had to leave.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to `berth group`."""
    app.command("ticks")(list_ticks)
    app.command("waits")(show_waits)
    app.command("preemptions")(list_preemptions)
