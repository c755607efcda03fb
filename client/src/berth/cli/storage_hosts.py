"""Commands `storage-host`: storage hosts, and how machines reach them. For superadmins."""

from typing import Annotated, Any

import typer

from berth.amounts import format_age
from berth.cli.context import AsJson, get_client
from berth.cli.input_files import read_text
from berth.cli.output import note, show_json, show_table
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


@app.command("kinds")
def list_kinds(context: typer.Context, as_json: AsJson = False) -> None:
    """List the kinds of storage hosts: settings, what the file system does itself, what the machine lacks."""
    kinds = list(get_client(context).storage_hosts.kinds())
    if as_json:
        show_json(kinds)
        return
    rows = [
        (
            kind.name,
            " ".join(each.name if each.is_required else f"[{each.name}]" for each in kind.settings),
            ", ".join(kind.capabilities),
            "yes" if kind.is_simulated else "",
            " ".join(kind.lacks),
        )
        for kind in kinds
    ]
    show_table(("kind", "settings", "does", "simulated", "lacks"), rows, empty="No kinds.")


Settings = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="A setting of the kind; may be repeated.")
]
SecretFiles = Annotated[
    list[str],
    typer.Option(
        "--set-file", metavar="NAME=FILE", help="A secret setting, from a file; - reads standard input."
    ),
]


@app.command("add")
def add(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="People choose the host by it.", show_default=False)
    ],
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="As berth storage-host kinds lists.")],
    given: Settings = [],  # noqa: B006  typer never changes it
    files: SecretFiles = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Add a storage host; it is mounted and tried first."""
    host = get_client(context).storage_hosts.add(name, kind, _settings(given, files))
    _show([host], as_json=as_json)


@app.command("settings")
def settings(
    context: typer.Context,
    host: HostName,
    given: Settings = [],  # noqa: B006
    files: SecretFiles = [],  # noqa: B006
    is_active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="New folders may be created there.")
    ] = None,
    is_default: Annotated[bool, typer.Option("--default", help="The default host of new folders.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change a storage host; new settings are tried before they stay."""
    changes: dict[str, Any] = {}
    if given or files:
        changes["settings"] = _settings(given, files)
    if is_active is not None:
        changes["is_active"] = is_active
    if is_default:
        changes["is_default"] = True
    if not changes:
        raise InvalidInput("Nothing to change.", hint="Give --set, --set-file, --active or --default.")
    hosts = get_client(context).storage_hosts
    _show([hosts.change(hosts.find(host).id, changes)], as_json=as_json)


@app.command("remove")
def remove(context: typer.Context, host: HostName) -> None:
    """Remove a storage host without folders from Berth; its files stay."""
    hosts = get_client(context).storage_hosts
    hosts.remove(hosts.find(host).id)


@app.command("rights")
def rights(
    context: typer.Context,
    host: HostName,
    grants: Annotated[
        list[str],
        typer.Option(
            "--grant",
            metavar="HOLDER:NAME=RIGHTS",
            help="Like domain:default=create,mount or project:default/vision=all or policy:NAME=download.",
        ),
    ] = [],  # noqa: B006
    is_open: Annotated[bool, typer.Option("--open", help="Everybody has all rights.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show or set who has which rights on a host: create, modify, delete, mount, upload, download, invite."""
    hosts = get_client(context).storage_hosts
    found = hosts.find(host)
    if is_open and grants:
        raise InvalidInput("A host is open, or has grants.", hint="Give --open or --grant.")
    if is_open or grants:
        found = hosts.set_rights(found.id, None if is_open else [_grant(each) for each in grants])
    if as_json:
        show_json([found])
        return
    rows = [(each.holder, each.name, ", ".join(each.rights)) for each in found.grants]
    empty = "Nobody but administrators." if found.is_restricted else "Everybody has all rights."
    show_table(("holder", "name", "rights"), rows, empty=empty)


ALL_RIGHTS = ("create", "modify", "delete", "mount", "upload", "download", "invite")


def _grant(text: str) -> dict[str, Any]:
    holder, _colon, rest = text.partition(":")
    name, _equals, given = rest.rpartition("=")
    if not (holder and name):
        raise InvalidInput(f"“{text}” is no grant.", hint="Write it like domain:default=create,mount.")
    words = list(ALL_RIGHTS) if given == "all" else [word for word in given.split(",") if word]
    return {"holder": holder, "name": name, "rights": words}


def _settings(given: list[str], files: list[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in given]
    pairs += [
        (name, sep, read_text(file).rstrip("\r\n")) for name, sep, file in (f.partition("=") for f in files)
    ]
    for name, sep, _value in pairs:
        if not (name and sep):
            raise InvalidInput(f"“{name}” has no value.", hint="Write it like server=nas.example.org.")
    return {name: value for name, _sep, value in pairs}


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


@app.command("probe", hidden=True)
@app.command("check")
def check(context: typer.Context, host: HostName, as_json: AsJson = False) -> None:
    """Check a host's health now, and have all machines prove again, within seconds, that they reach it."""
    hosts = get_client(context).storage_hosts
    _show([hosts.check(hosts.find(host).id)], as_json=as_json)


def _show(hosts: list[StorageHost], *, as_json: bool) -> None:
    if as_json:
        show_json(hosts)
        return
    for host in hosts:
        if host.error:
            note(f"{host.name}: {host.error}")
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
