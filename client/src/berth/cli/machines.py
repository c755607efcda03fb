"""Commands that add machines and change their state. For superadmins."""

from pathlib import Path
from typing import Annotated

import typer

from berth.cli.context import get_client
from berth.cli.lists import agent_app as agent_app  # with the commands of both modules
from berth.cli.output import say

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the machine.", show_default=False)]


@agent_app.command("add")
def add_agent(
    context: typer.Context,
    name: Name,
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS", help="tcp://host:2376, ssh://user@host or unix:///path.", show_default=False
        ),
    ],
    issue: Annotated[bool, typer.Option("--issue", help="Let Berth issue the certificates.")] = False,
    tls: Annotated[
        Path | None,
        typer.Option("--tls", metavar="DIR", help="Directory with ca.pem, cert.pem and key.pem."),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option("--also", help="Further name in the issued certificate; may be repeated."),
    ] = None,
    host_key: Annotated[str, typer.Option("--host-key", help="SSH host key that it must show.")] = "",
    group: Annotated[str, typer.Option("--group", help="Resource group.")] = "",
    plain_text: Annotated[
        bool, typer.Option("--plain-text", help="The engine has no certificates; needs --yes.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="The address, or the lack of protection, is meant.")
    ] = False,
) -> None:
    """Add a machine. With --issue, print the line to paste there; otherwise its engine must answer."""
    client = get_client(context)
    common = {"name": name, "address": address, "is_confirmed": yes}
    if group:
        common["resource_group"] = group
    if issue:
        made = client.invite_machine(common | {"more_names": also or []})
        say(f"curl -fsSL {made['script_url']} | sudo sh")
        return
    if tls is not None:
        names = {"ca": "ca.pem", "certificate": "cert.pem", "key": "key.pem"}
        common |= {field: (tls / file).read_text() for field, file in names.items()}
    if host_key:
        common["host_key"] = host_key
    agent = client.add_agent(common | {"is_plain_text": plain_text})
    say(f"{agent.name} is {agent.state}.")


@agent_app.command("ssh-key")
def show_ssh_key(context: typer.Context) -> None:
    """Print Berth's public key, for ~/.ssh/authorized_keys on machines at ssh:// addresses."""
    say(get_client(context).agent_ssh_key())


def _change_state(context: typer.Context, name: str, state: str, **maintenance: str) -> None:
    client = get_client(context)
    agent = client.change_agent_state(client.find_agent(name), state, **maintenance)
    say(f"{agent.name} is {agent.state}.")


@agent_app.command("drain")
def drain(context: typer.Context, name: Name) -> None:
    """Give a machine no new sessions; those that run there go on, and their owners are notified."""
    _change_state(context, name, "draining")


@agent_app.command("resume")
def resume(context: typer.Context, name: Name) -> None:
    """Give a machine sessions again."""
    _change_state(context, name, "connected")


@agent_app.command("maintenance")
def begin_maintenance(
    context: typer.Context,
    name: Name,
    until: Annotated[
        str,
        typer.Option(
            "--until",
            help="End, like 2026-05-01T18:00+02:00: it takes sessions again when it answers then.",
            show_default=False,
        ),
    ] = "",
    because: Annotated[
        str, typer.Option("--because", help="Reason, for people who wait for it.", show_default=False)
    ] = "",
) -> None:
    """Give a machine no sessions, and allow it to be silent."""
    _change_state(context, name, "maintenance", ends_at=until, because=because)


@agent_app.command("retire")
def retire(context: typer.Context, name: Name) -> None:
    """Take a machine out of use for good."""
    _change_state(context, name, "retired")


@agent_app.command("remove")
def remove(context: typer.Context, name: Name) -> None:
    """Retire a machine and forget the certificates and keys by which it was reached."""
    client = get_client(context)
    client.revoke_agent(client.find_agent(name))
    say(f"{name} is retired, and its certificates are worth nothing.")
