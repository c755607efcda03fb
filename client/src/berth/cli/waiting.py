"""Commands `check`, `queue`, `priority` and `why`: predict, list, reorder and explain waiting."""

from itertools import islice
from typing import Annotated, Any

import typer

from berth.amounts import format_age, format_instant, format_slots
from berth.cli.accelerator_options import AcceleratorOptions
from berth.cli.context import AsJson, SessionName, expand_options, get_client
from berth.cli.launch_options import (
    Cpu,
    Group,
    Image,
    Mem,
    Mounts,
    Nodes,
    NodesOn,
    Priority,
    Project,
    Resources,
    Roles,
    Shm,
    choose_project,
    parse_mounts,
    parse_past_instant,
    parse_resources,
    parse_roles,
    parse_seconds,
)
from berth.cli.output import note, say, show_facts, show_json, show_table
from berth.cli.safe_text import first_line
from berth.cli.sessions import ID_LENGTH, AnySession
from berth.models import SessionCheck
from berth.sessions import generated_name


@expand_options
def check(
    context: typer.Context,
    image: Image,
    accelerators: AcceleratorOptions,
    project: Project = "",
    cpu: Cpu = "1",
    mem: Mem = "1g",
    shm: Shm = "",
    resource: Resources = None,
    mount: Mounts = None,
    group: Group = "",
    nodes: Nodes = 1,
    nodes_on: NodesOn = "",
    role: Roles = None,
    priority: Priority = 0,
    time_limit: Annotated[
        str, typer.Option("--time-limit", "-t", help="Time limit, like 90, 30m, 2h or 1d.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show whether a session would start now, or why and how long it would wait. Starts nothing.

    A request that would be refused fails with the same error.
    """
    client = get_client(context)
    reference = client.find_image(image).reference
    body: dict[str, Any] = {
        "name": generated_name(reference),
        "project": choose_project(client, project),
        "image": reference,
        "resources": {"cpu": cpu, "mem": mem, **parse_resources(shm, resource), **accelerators.amounts()},
        "mounts": [one.to_json() for one in parse_mounts(mount)],
        "priority": priority,
        **{name: demand for name, demand in accelerators.demands().items() if demand},
    }
    if group:
        body["resource_group"] = group
    if nodes != 1:
        body["cluster_size"] = nodes
    containers = {"cluster_mode": nodes_on, "roles": parse_roles(role)}
    body |= {name: value for name, value in containers.items() if value}
    if time_limit:
        body["timeout_s"] = parse_seconds(time_limit)
    found = client.sessions.check(body)
    show_json(found) if as_json else show_facts(_facts(found))


def _facts(found: SessionCheck) -> dict[str, object]:
    waits = not found.starts_now
    return {
        "starts": "now" if found.starts_now else "later",
        "why": found.message,
        "ask": found.who_may_raise,
        "position": found.queue_position,
        "when": ((found.expected_start and found.expected_start.message) or "unknown") if waits else "",
        "most free on one machine": format_slots(found.best_room) if waits and found.best_room else "",
        "starts now in": ", ".join(found.other_groups),
        "resources": format_slots(found.resources),
        "resource group": found.resource_group,
    }


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
