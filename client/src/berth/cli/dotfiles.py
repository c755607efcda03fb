"""Commands `dotfile` and `startup-script`: files and a script for the user's new sessions."""

import os
import stat
from typing import Annotated

import typer

from berth.amounts import format_age
from berth.cli.context import AsJson, get_client
from berth.cli.input_files import STDIN, decode_text, home, read_bytes
from berth.cli.output import say, show_json, show_table

app = typer.Typer(no_args_is_help=True, help="Text files in the home directory of each of your new sessions.")
script_app = typer.Typer(no_args_is_help=True, help="Script that runs in each of your new sessions.")

MOST_BYTES = 64 * 1024
DotfilePath = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="Path below the home directory, like .config/git/config.", show_default=False
    ),
]


@app.command("list")
def list_dotfiles(context: typer.Context, as_json: AsJson = False) -> None:
    """List your dotfiles."""
    found = list(get_client(context).dotfiles.list())
    if as_json:
        show_json(found)
        return
    rows = [
        (
            one.path,
            one.mode,
            one.size_bytes,
            format_age(one.changed_at),
            one.token_name,
            "" if one.is_used else "no",
        )
        for one in found
    ]
    show_table(("path", "mode", "bytes", "changed", "by token", "used"), rows, empty="None.")


@app.command("put")
def put(
    context: typer.Context,
    path: DotfilePath,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Local file; - is standard input. By default PATH in your home directory.",
            show_default=False,
        ),
    ] = "",
    mode: Annotated[
        str,
        typer.Option(
            "--mode", help="File mode in octal digits; by default that of FILE.", show_default=False
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Save a dotfile, replacing one of the same path. Running sessions are not changed."""
    source = file or str(home() / path)
    content = _read(source)
    kept = get_client(context).dotfiles.put(path, content, mode=mode or _local_mode(source))
    if as_json:
        show_json(kept)


@app.command("show")
def show(context: typer.Context, path: DotfilePath) -> None:
    """Print a dotfile."""
    _print(get_client(context).dotfiles.get(path).content)


@app.command("remove")
def remove(context: typer.Context, path: DotfilePath) -> None:
    """Delete a dotfile."""
    get_client(context).dotfiles.remove(path)


@script_app.command("set")
def set_script(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A script for bash; - is standard input.", show_default=False),
    ],
) -> None:
    """Set the script that runs in each of your new sessions."""
    get_client(context).startup_script.set(_read(file))


@script_app.command("show")
def show_script(context: typer.Context) -> None:
    """Print the start-up script."""
    _print(get_client(context).startup_script.get())


@script_app.command("remove")
def remove_script(context: typer.Context) -> None:
    """Delete the start-up script."""
    get_client(context).startup_script.remove()


def _print(content: str) -> None:
    say(content[:-1] if content.endswith("\n") else content)


def _local_mode(source: str) -> str:
    """Return the file mode in octal digits, as the API takes it.

    Keeps the owner's permissions and others' permission to read and execute, but not to write.
    """
    if source == STDIN:
        return "0644"
    return f"{stat.S_IMODE(os.stat(os.path.expanduser(source)).st_mode) & 0o755 | 0o400:04o}"


def _read(file: str) -> str:
    """Return the text of a local file. Raises InvalidInput if it is too large or not text."""
    return decode_text(file, read_bytes(file, most_bytes=MOST_BYTES))
