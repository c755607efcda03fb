"""Commands of `group` about scheduling: fair-share weights, ticks, wait times, preemptions."""

from itertools import islice
from typing import Annotated

import typer

from berth.amounts import format_instant
from berth.cli.context import AsJson, get_client
from berth.cli.output import say, show_json, show_table
from berth.cli.resource_groups import GroupName, ToDomain, ToProject, ToUser, parse_grantee

Limit = Annotated[int, typer.Option("--limit", help="Maximum number, newest first.", min=1)]
US_PER_MS = 1000


def list_ticks(context: typer.Context, group: GroupName, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List recent ticks of a group's scheduler: sessions placed and waiting, duration."""
    groups = get_client(context).managed_groups
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
    groups = get_client(context).managed_groups
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
    groups = get_client(context).managed_groups
    found = list(islice(groups.preemptions(groups.find(group).id), limit))
    if as_json:
        show_json(found)
        return
    rows = [(format_instant(one.decided_at), one.name, one.by_name, one.agent, one.outcome) for one in found]
    show_table(("when", "session", "for", "agent", "outcome"), rows, empty="Nobody had to leave.")


def list_weights(
    context: typer.Context,
    group: GroupName,
    level: Annotated[str, typer.Option("--level", help="domain, project or user.")] = "domain",
    as_json: AsJson = False,
) -> None:
    """List current and recent use and fair-share weights in a group; next in turn first."""
    groups = get_client(context).managed_groups
    found = list(groups.standings(groups.find(group).id, level))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            "/".join((*one.above, one.name)),
            f"{one.weight:g}",
            "" if one.target is None else f"{one.target:.1%}",
            f"{one.held:.1%}",
            f"{one.lately:.1%}",
            f"{one.counts:.1%}",
        )
        for one in found
    ]
    heads = ("name", "weight", "target", "has now", "had lately", "for its weight")
    show_table(heads, rows, empty="Nobody has a share.")


def set_weight(
    context: typer.Context,
    group: GroupName,
    weight: Annotated[
        str, typer.Argument(help="Weight; twice the weight gives twice the share. Default: 1.")
    ],
    user: ToUser = "",
    project: ToProject = "",
    domain: ToDomain = "",
    as_json: AsJson = False,
) -> None:
    """Set the fair-share weight of a domain, project or user in a group."""
    groups, (level, name) = get_client(context).managed_groups, parse_grantee(user, project, domain)
    groups.set_weight(groups.find(group).id, weight, level=level, name=name)
    if as_json:
        show_json({"level": level, "name": name, "weight": weight})
        return
    say(f"{name} counts {weight} in {group}.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to `berth group`."""
    app.command("weights")(list_weights)
    app.command("weight")(set_weight)
    app.command("ticks")(list_ticks)
    app.command("waits")(show_waits)
    app.command("preemptions")(list_preemptions)
