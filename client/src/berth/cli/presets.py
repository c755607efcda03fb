"""Commands `preset`: list, add and remove presets."""

from typing import Annotated

import typer

from berth.amounts import format_bytes, format_slots
from berth.cli.context import AsJson, get_client
from berth.cli.launch_options import Resources, Shm, parse_resources
from berth.cli.output import say, show_json, show_table
from berth.errors import InvalidInput
from berth.presets import Preset

app = typer.Typer(no_args_is_help=True, help="Presets: named session sizes.")


@app.command("ls", hidden=True)
@app.command("list")
def list_presets(context: typer.Context, as_json: AsJson = False) -> None:
    """List presets: your own, and those of your projects, your domain and everybody."""
    found = list(get_client(context).presets.list())
    if as_json:
        show_json(found)
        return
    rows = [(one.id, one.name, _whose(one), _size(one)) for one in found]
    show_table(("id", "name", "whose", "size"), rows, empty="No presets.")


@app.command("add")
def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name.", show_default=False)],
    cpu: Annotated[str, typer.Option("--cpu", help="Cores, like 2 or 0.5.", show_default=False)],
    mem: Annotated[str, typer.Option("--mem", help="Memory, like 512m or 4g.", show_default=False)],
    shm: Shm = "",
    resource: Resources = None,
    project: Annotated[str, typer.Option("--project", "-p", help="For this project.")] = "",
    domain: Annotated[str, typer.Option("--domain", help="For this domain.")] = "",
    everybody: Annotated[bool, typer.Option("--everybody", help="For everybody (superadmins).")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a preset for yourself or, as an administrator, for a project, a domain or everybody."""
    if bool(project) + bool(domain) + everybody > 1:
        raise InvalidInput("For whom?", hint="At most one of --project, --domain, --everybody.")
    sharing = "project" if project else "domain" if domain else "everybody" if everybody else "own"
    made = get_client(context).presets.add(
        name,
        {"cpu": cpu, "mem": mem, **parse_resources(shm, resource)},
        sharing=sharing,
        place=project or domain,
    )
    show_json(made) if as_json else say(str(made.id))


@app.command("rm", hidden=True)
@app.command("remove")
def remove(
    context: typer.Context,
    preset: Annotated[str, typer.Argument(metavar="PRESET", help="Name, or id.", show_default=False)],
) -> None:
    """Delete a preset; sessions started with it stay."""
    client = get_client(context)
    client.presets.remove(client.presets.find(preset).id)


def _whose(preset: Preset) -> str:
    return preset.project or preset.domain or {"own": "only you"}.get(preset.sharing, preset.sharing)


def _size(preset: Preset) -> str:
    shm = f", shm {format_bytes(preset.shm_bytes)}" if preset.shm_bytes else ""
    return format_slots(preset.resources) + shm
