"""Command `check`: predict the outcome of a session request without submitting it."""

from typing import Annotated, Any

import typer

from berth.amounts import format_slots
from berth.cli.context import AsJson, get_client
from berth.cli.launch_options import (
    Cpu,
    Group,
    Image,
    Mem,
    Mounts,
    Priority,
    Project,
    Resources,
    Shm,
    choose_project,
    parse_mounts,
    parse_resources,
    parse_seconds,
)
from berth.cli.output import show_facts, show_json
from berth.models import SessionCheck
from berth.sessions import generated_name


def check(
    context: typer.Context,
    image: Image,
    project: Project = "",
    cpu: Cpu = "1",
    mem: Mem = "1g",
    shm: Shm = "",
    resource: Resources = None,
    mount: Mounts = None,
    group: Group = "",
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
        "resources": {"cpu": cpu, "mem": mem, **parse_resources(shm, resource)},
        "mounts": [one.to_json() for one in parse_mounts(mount)],
        "priority": priority,
    }
    if group:
        body["resource_group"] = group
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
