"""Commands `storage-host`: storage hosts, and how machines reach them. For superadmins."""

from typing import Annotated, Any

import typer

from berth.amounts import format_age
from berth.cli.context import AsJson, get_client
from berth.cli.input_files import read_text
from berth.cli.output import show_json, show_table
from berth.errors import InvalidInput
from berth.storage_hosts import MachineReach, StorageHost

app = typer.Typer(
    no_args_is_help=True, help="Storage hosts: where folders are, and which machines reach them."
)

HostName = Annotated[str, typer.Argument(metavar="HOST", help="Name, or id.", show_default=False)]


@app.command("ls", hidden=True)
@app.command("list")
def list_hosts(context: typer.Context, as_json: AsJson = False) -> None:
    """List the storage hosts, a line for each machine: if it reaches the host, and why not."""
    _show(list(get_client(context).storage_hosts.list()), as_json=as_json)


@app.command("change")
def change(
    context: typer.Context,
    host: HostName,
    local: Annotated[bool, typer.Option("--local", help="Only the portal's machine reaches it.")] = False,
    path: Annotated[
        str, typer.Option("--path", metavar="DIR", help="All machines have it, mounted here.")
    ] = "",
    volume: Annotated[
        str,
        typer.Option(
            "--volume", metavar="TYPE", help="Machines mount it as a Docker volume: nfs, cifs, ceph…"
        ),
    ] = "",
    share: Annotated[
        str,
        typer.Option(
            "--share", metavar="SHARE", help="Of a volume, like :/export/folders or //server/share/folders."
        ),
    ] = "",
    options: Annotated[
        str,
        typer.Option(
            "--options",
            metavar="OPTIONS",
            help="Of a volume, like addr=10.0.0.5,nfsvers=4.2; {secret} is the password.",
        ),
    ] = "",
    password_file: Annotated[
        str,
        typer.Option(
            "--password-file", metavar="FILE", help="Password of the share; - reads standard input."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Say how machines other than the portal's reach a storage host; they prove it within seconds."""
    if local + bool(path) + bool(volume) != 1:
        raise InvalidInput("How do machines reach it?", hint="One of --local, --path, --volume.")
    if (share or options or password_file) and not volume:
        raise InvalidInput("Only a volume has a share.", hint="Add --volume nfs, for example.")
    changes: dict[str, Any] = {"reach": "local"}
    if path:
        changes = {"reach": "path", "agent_path": path}
    if volume:
        given = {"type": volume, "device": share, "o": options}
        changes = {"reach": "volume", "volume_options": given}
    if password_file:
        changes["secret"] = read_text(password_file).rstrip("\r\n")
    hosts = get_client(context).storage_hosts
    _show([hosts.change(hosts.find(host).id, changes)], as_json=as_json)


@app.command("check")
def check(context: typer.Context, host: HostName, as_json: AsJson = False) -> None:
    """Have all machines prove again, within seconds, that they reach a storage host."""
    hosts = get_client(context).storage_hosts
    _show([hosts.check(hosts.find(host).id)], as_json=as_json)


def _show(hosts: list[StorageHost], *, as_json: bool) -> None:
    if as_json:
        show_json(hosts)
        return
    rows = [
        (host.name, _reach(host), each.agent, _answer(each), format_age(each.checked_at), each.error)
        for host in hosts
        for each in host.machines or (MachineReach(agent=""),)
    ]
    show_table(("host", "by", "machine", "reached", "checked", "why"), rows, empty="No storage host.")


def _reach(host: StorageHost) -> str:
    options = host.volume_options
    return {
        "path": f"path {host.agent_path}",
        "volume": f"{options.get('type', '')} {options.get('device', '')}".strip(),
    }.get(host.reach, "the portal's machine only")


def _answer(machine: MachineReach) -> str:
    if not machine.agent:
        return ""
    return {True: "yes", False: "no", None: "not checked yet"}[machine.is_reached]
