"""Commands that bring images to machines, and say where they are."""

import time
from typing import Annotated

import typer

from berth.amounts import format_age, format_bytes
from berth.cli import complete
from berth.cli.context import AsJson, get_client
from berth.cli.exits import FAILED
from berth.cli.lists import image_app as image_app  # with the commands of both modules
from berth.cli.output import show_json, show_table
from berth.machine_models import ImageOnMachine

POLLED_EVERY_S = 1.0
UNDER_WAY = ("coming", "waiting")
ImageName = Annotated[
    str,
    typer.Argument(
        metavar="IMAGE",
        help="Reference, id, or a unique beginning.",
        autocompletion=complete.images,
        show_default=False,
    ),
]


@image_app.command("machines")
def list_machines(context: typer.Context, image: ImageName, as_json: AsJson = False) -> None:
    """List the machines that could run an image, and whether they have it."""
    client = get_client(context)
    machines = list(client.image_machines(client.find_image(image)))
    if as_json:
        show_json(machines)
        return
    rows = [
        (one.agent, one.resource_group, one.state, _progress(one), format_age(one.used_at))
        for one in machines
    ]
    show_table(("machine", "group", "image", "", "used"), rows, empty="No machine can run it.")


@image_app.command("pull")
def pull(
    context: typer.Context,
    image: ImageName,
    agent: Annotated[
        list[str] | None, typer.Option("--agent", help="Machine; may be repeated.", show_default=False)
    ] = None,
    group: Annotated[str, typer.Option("--group", help="All machines of a resource group.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the result on each machine.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Bring an image to machines before sessions need it, and print the result on each. For superadmins.

    It is pulled from its registry, else copied from another machine.
    """
    client = get_client(context)
    found = client.find_image(image)
    names = {one.agent for one in client.bring_image(found, agents=agent or [], group=group)}
    while True:
        machines = [one for one in client.image_machines(found) if one.agent in names]
        if not wait or not any(one.state in UNDER_WAY for one in machines):
            break
        time.sleep(POLLED_EVERY_S)
    if as_json:
        show_json(machines)
    else:
        show_table(("machine", "image", ""), [(one.agent, one.state, _progress(one)) for one in machines])
    if wait and any(one.state != "there" for one in machines):
        raise typer.Exit(FAILED)


def _progress(one: ImageOnMachine) -> str:
    """Return the error of a failure, or how much has arrived."""
    if one.state == "failed":
        return one.error
    if one.state == "coming" and one.total_bytes:
        return f"{format_bytes(one.done_bytes)} of {format_bytes(one.total_bytes)}"
    return ""
