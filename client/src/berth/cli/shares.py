"""Commands `group weights` and `group weight`: list fair shares and set their weights."""

from typing import Annotated

import typer

from berth.cli.context import AsJson, client_of
from berth.cli.output import say, show_json, show_table
from berth.cli.resource_groups import GroupName, ToDomain, ToProject, ToUser, whom


def list_weights(
    context: typer.Context,
    group: GroupName,
    level: Annotated[str, typer.Option("--level", help="domain, project or user.")] = "domain",
    as_json: AsJson = False,
) -> None:
    """List current use, recent use and fair-share weights in a group; next in turn by fair share
    first.
    """
    groups = client_of(context).managed_groups
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
    weight: Annotated[str, typer.Argument(help="Twice the weight, twice the share; 1 is usual.")],
    user: ToUser = "",
    project: ToProject = "",
    domain: ToDomain = "",
    as_json: AsJson = False,
) -> None:
    """Set the fair-share weight of a domain, project or user in a group."""
    groups, (level, name) = client_of(context).managed_groups, whom(user, project, domain)
    groups.set_weight(groups.find(group).id, weight, level=level, name=name)
    if as_json:
        show_json({"level": level, "name": name, "weight": weight})
        return
    say(f"{name} counts {weight} in {group}.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to `berth group`."""
    app.command("weights")(list_weights)
    app.command("weight")(set_weight)
