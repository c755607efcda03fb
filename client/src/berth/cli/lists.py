"""Commands `image`, `agent`, `limits`, `audit` and `events`: list what the portal has and records."""

from itertools import islice
from typing import Annotated

import typer

from berth.amounts import format_age, format_amount, format_bytes, format_instant, format_limit
from berth.cli.context import AsJson, get_client
from berth.cli.output import is_terminal, show_json, show_table
from berth.client import Client
from berth.errors import NotFound
from berth.machine_models import Agent, Device
from berth.models import Limit

image_app = typer.Typer(no_args_is_help=True, help="Images that sessions are started from.")
agent_app = typer.Typer(no_args_is_help=True, help="Agents: the machines.")


@image_app.command("ls")
def list_images(
    context: typer.Context,
    reference: Annotated[str, typer.Option("--reference", help="Only this reference.")] = "",
    project: Annotated[
        str,
        typer.Option(
            "--project", help="Show whether policies allow them in this project.", envvar="BERTH_PROJECT"
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the images, and whether policies allow you to use them."""
    images = list(get_client(context).images(reference=reference, project=project))
    if as_json:
        show_json(images)
        return
    rows = [
        (
            one.id,
            one.reference,
            one.title,
            ", ".join(app.name for app in one.apps),
            format_bytes(one.size_bytes),
            f"{one.machines} of {one.machines_total}",
            "yes" if one.is_allowed else "no",
        )
        for one in images
    ]
    show_table(
        ("id", "reference", "title", "apps", "size", "machines", "allowed"), rows, empty="No image is there."
    )


def _promised(agent: Agent, slot: str) -> str:
    """Format promised capacity, as “32 cores (2x over-commit)” if it exceeds the physical one."""
    has = agent.capacity.get(slot, 0)
    promised = agent.promised.get(slot, has)
    text = format_amount(slot, promised)
    return f"{text} ({promised / has:.3g}x over-commit)" if 0 < has < promised else text


@agent_app.command("ls")
def list_agents(context: typer.Context, as_json: AsJson = False) -> None:
    """List the agents that you may see, with their free and total resources."""
    agents = list(get_client(context).agents())
    if as_json:
        show_json(agents)
        return
    slots = ["cpu", "mem", *sorted({name for one in agents for name in one.capacity} - {"cpu", "mem"})]
    rows = [
        (
            one.name,
            one.state,
            one.resource_group,
            *(f"{format_amount(slot, one.free.get(slot, 0))} of {_promised(one, slot)}" for slot in slots),
            format_age(one.heartbeat_at),
        )
        for one in agents
    ]
    show_table(("name", "state", "group", *(f"{slot} free" for slot in slots), "heard"), rows, empty="None.")


DeviceNumber = Annotated[
    int, typer.Argument(metavar="ID", help="Id of the device, from “agent devices”.", show_default=False)
]


@agent_app.command("devices")
def list_devices(context: typer.Context, as_json: AsJson = False) -> None:
    """List all accelerators, what they do and why some are withheld. For superadmins and monitors."""
    devices = list(get_client(context).devices())
    if as_json:
        show_json(devices)
        return
    rows = [
        (
            one.id,
            one.agent,
            f"{one.slot_name} {one.index}",
            one.model,
            one.state,
            "" if one.percent is None else f"{one.percent} %",
            one.withheld_because or one.warning,
        )
        for one in devices
    ]
    show_table(("id", "agent", "device", "model", "state", "use", "trouble"), rows, empty="None.")


@agent_app.command("withhold")
def withhold_device(
    context: typer.Context,
    device_id: DeviceNumber,
    because: Annotated[
        str, typer.Option("--because", help="Reason, for those who look after it next.", show_default=False)
    ],
) -> None:
    """Give a device to no new session until it is released; its sessions continue. For superadmins."""
    client = get_client(context)
    client.withhold_device(_find_device(client, device_id), because)


@agent_app.command("release")
def release_device(context: typer.Context, device_id: DeviceNumber) -> None:
    """Give a withheld device to sessions again. For superadmins."""
    client = get_client(context)
    client.release_device(_find_device(client, device_id))


def _find_device(client: Client, device_id: int) -> Device:
    found = next((each for each in client.devices() if each.id == device_id), None)
    if found is None:
        raise NotFound(f"There is no device {device_id}.", hint="“berth agent devices” lists them.")
    return found


def limits(
    context: typer.Context,
    project: Annotated[
        str,
        typer.Option(
            "--project",
            help="Limits in this project; by default those that apply in all.",
            envvar="BERTH_PROJECT",
            show_default=False,
        ),
    ] = "",
    user: Annotated[
        str, typer.Option("--user", help="User whom you administer, by e-mail.", show_default=False)
    ] = "",
    with_all: Annotated[
        bool, typer.Option("--all", help="Limits of all levels, not only the tightest.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show your limits and what is left of them: the tightest of domain, project, account and
    token.
    """
    found = get_client(context).limits(project=project, user=user)
    if as_json:
        show_json(found)
        return
    rows = [
        (one.limit, *_amounts(one), f"{one.level} {one.scope}", one.policy)
        for one in (found.levels if with_all else found.limits)
    ]
    lists = [
        (one.list, ", ".join(one.entries) or "none", f"{one.level} {one.scope}", one.policy)
        for one in found.allow_lists
    ]
    if rows or not lists:
        show_table(("limit", "most", "used", "left", "set by", "policy"), rows, empty="Nothing is limited.")
    if lists:
        show_table(("list", "allowed", "set by", "policy"), lists)


def _amounts(one: Limit) -> tuple[str, str, str]:
    """Return maximum, used and left as text; minimums have neither used nor left."""
    if one.limit.startswith("min_"):
        least = f"at least {format_limit(one.limit, one.value)}"
        return f"{least}, or another" if one.is_joint else least, "", ""
    most, used, left = (format_limit(one.limit, amount) for amount in (one.value, one.used, one.left))
    return most, used, left


def events(context: typer.Context, as_json: AsJson = False) -> None:
    """Print live events that you may see, until Ctrl-C."""
    import json

    from berth.cli.output import say
    from berth.cli.safe_text import clean, clean_json

    for event in get_client(context).events():
        if as_json or not is_terminal():
            say(clean_json(json.dumps(dict(event.raw), ensure_ascii=False)))
        else:
            details = " ".join(f"{name}={value}" for name, value in event.raw.items() if name != "kind")
            say(clean(f"{event.kind} {details}"))


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
