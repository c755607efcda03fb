"""Commands `ssh-key`: list, add and remove the user's SSH public keys."""

from typing import Annotated

import typer

from berth.amounts import format_age, format_instant
from berth.cli.context import AsJson, get_client
from berth.cli.input_files import home, read_text
from berth.cli.output import note, say, show_json, show_table
from berth.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="Your SSH public keys.")

USUAL_FILES = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")
MOST_BYTES = 8192  # larger than any public key
PRIVATE = ("PRIVATE KEY", "PuTTY-User-Key-File")


@app.command("list")
def list_keys(context: typer.Context, as_json: AsJson = False) -> None:
    """List your SSH public keys."""
    found = list(get_client(context).ssh_keys.list())
    if as_json:
        show_json(found)
        return
    rows = [
        (
            one.id,
            one.name,
            one.key_type,
            one.fingerprint,
            format_age(one.last_used_at),
            format_instant(one.expires_at),
        )
        for one in found
    ]
    show_table(("id", "name", "type", "fingerprint", "used", "ends"), rows, empty="None.")


@app.command("add")
def add(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Public key file; - is standard input. By default the one in ~/.ssh.",
            show_default=False,
        ),
    ] = "",
    name: Annotated[
        str, typer.Option("--name", help="Name of the key; by default its comment.", show_default=False)
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Add a public key, and print its fingerprint."""
    added = get_client(context).ssh_keys.create(public_key=_read(file or _usual_file()), name=name)
    if as_json:
        show_json(added)
        return
    say(added.fingerprint)
    if added.expires_at is not None:
        note(f"It ends with your token: {format_instant(added.expires_at)}.")


@app.command("remove")
def remove(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Name or number.", show_default=False)],
) -> None:
    """Remove a key; it cannot be used to sign in any more."""
    keys = get_client(context).ssh_keys
    keys.delete(keys.find(key).id)


def _usual_file() -> str:
    """Return the public key file in ~/.ssh. Raises InvalidInput if there is none."""
    directory = home() / ".ssh"
    there = next((path for name in USUAL_FILES if (path := directory / name).is_file()), None)
    if there is None:
        raise InvalidInput(
            f"There is no public key in {directory}.", hint="Make a pair: ssh-keygen -t ed25519; or say FILE."
        )
    return str(there)


def _read(file: str) -> str:
    """Return the text of a public key file. Raises InvalidInput, also for a private key."""
    text = read_text(file, most_bytes=MOST_BYTES)
    if any(mark in text for mark in PRIVATE):
        raise InvalidInput(
            f"{file}: this is a private key; it was not sent.", hint="Name the file ending in .pub."
        )
    return text
