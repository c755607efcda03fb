"""Commands `group reserve…`: list reservations of agents; superadmins create and change them."""

from typing import Annotated

import typer

from berth.amounts import format_instant
from berth.cli.context import AsJson, get_client
from berth.cli.launch_options import parse_instant
from berth.cli.output import say, show_json, show_table
from berth.cli.resource_groups import GroupName, ToDomain, ToProject, ToUser, parse_grantee
from berth.machine_models import GroupReservation

Number = Annotated[int, typer.Argument(metavar="ID", help="Number.", show_default=False)]


def list_reservations(context: typer.Context, group: GroupName, as_json: AsJson = False) -> None:
    """List current and future reservations of a group. For reservations of others, you see only the
    agents and the time.
    """
    groups = get_client(context).managed_groups
    found = list(groups.reservations(groups.find(group).id))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            one.id,
            one.name or "reserved",
            format_instant(one.starts_at),
            format_instant(one.ends_at),
            _whose(one),
            ", ".join(one.agents),
        )
        for one in found
    ]
    show_table(("id", "name", "from", "to", "for", "agents"), rows, empty="No reservations.")


def reserve(
    context: typer.Context,
    group: GroupName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Like “Course”.", show_default=False)],
    to: Annotated[
        str,
        typer.Option(
            "--to", help="When it ends, like 2026-05-01T18:00, in your time zone.", show_default=False
        ),
    ],
    agents: Annotated[
        list[str], typer.Option("--agent", help="A machine; may be repeated.", show_default=False)
    ],
    begin: Annotated[str, typer.Option("--from", help="When it begins; now if not given.")] = "",
    user: ToUser = "",
    project: ToProject = "",
    domain: ToDomain = "",
    reason: Annotated[str, typer.Option("--reason", help="Why.")] = "",
    as_json: AsJson = False,
) -> None:
    """Reserve agents of a group for a domain, project or user, or for maintenance."""
    groups = get_client(context).managed_groups
    grantee = parse_grantee(user, project, domain) if user or project or domain else None
    made = groups.reserve(
        groups.find(group).id,
        name=name,
        agents=agents,
        starts_at=parse_instant(begin) or None,
        ends_at=parse_instant(to),
        grantee=grantee,
        reason=reason,
    )
    show_json(made) if as_json else say(str(made.id))


def change(
    context: typer.Context,
    group: GroupName,
    reservation: Number,
    name: Annotated[str, typer.Option("--name", help="New name.")] = "",
    begin: Annotated[str, typer.Option("--from", help="When it begins, until it has begun.")] = "",
    to: Annotated[str, typer.Option("--to", help="When it ends.")] = "",
    agents: Annotated[
        list[str] | None,
        typer.Option("--agent", help="A machine, in place of those it has; may be repeated."),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; “” takes it away.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change the time, the agents or the name of a reservation."""
    columns = {
        "name": name or None,
        "starts_at": parse_instant(begin) or None,
        "ends_at": parse_instant(to) or None,
        "agents": agents or None,
        "reason": reason,
    }
    given = {column: value for column, value in columns.items() if value is not None}
    if not given:
        raise typer.BadParameter("Say what to change: --name, --from, --to, --agent or --reason.")
    groups = get_client(context).managed_groups
    changed = groups.change_reservation(groups.find(group).id, reservation, **given)
    show_json(changed) if as_json else say(str(changed.id))


def unreserve(context: typer.Context, group: GroupName, reservation: Number) -> None:
    """Cancel a reservation: its agents become available to everybody again."""
    groups = get_client(context).managed_groups
    groups.unreserve(groups.find(group).id, reservation)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `berth group`."""
    app.command("reservations")(list_reservations)
    app.command("reserve")(reserve)
    app.command("change-reservation")(change)
    app.command("unreserve")(unreserve)


def _whose(one: GroupReservation) -> str:
    if not one.name:
        return "others"
    return f"{one.level} {one.grantee}" if one.level else "nobody (maintenance)"
