"""Commands `folder`: manage folders and their files."""

from typing import Annotated

import typer

from berth.amounts import format_age, format_bytes, format_instant
from berth.cli import complete
from berth.cli.context import AsJson, FolderName, get_client
from berth.cli.copying import watching
from berth.cli.exits import FAILED
from berth.cli.output import note, say, show_facts, show_json, show_table, show_tally, write_bytes
from berth.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="Folders, which outlive sessions, and the files in them.")

FolderPath = Annotated[str, typer.Argument(help="Path in the folder.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@app.command("ls")
def list_folders(context: typer.Context, as_json: AsJson = False) -> None:
    """List the folders that you may see."""
    folders = list(get_client(context).folders.list())
    if as_json:
        show_json(folders)
        return
    rows = [
        (
            one.name,
            one.owner or "",
            one.project or "",
            one.state,
            one.host,
            format_age(one.created_at),
            format_bytes(one.size_bytes) + ("" if one.is_size_whole else "+"),
            format_age(one.measured_at) or "never",
            one.id,
        )
        for one in folders
    ]
    columns = ("name", "owner", "project", "state", "host", "age", "size", "counted", "id")
    show_table(columns, rows, empty="None. Create one: berth folder create NAME.")


@app.command("create")
def create(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="Name of the folder, mounted as /home/work/NAME in sessions.", show_default=False
        ),
    ],
    project: Annotated[
        str,
        typer.Option("--project", "-p", help="Create it for a project.", autocompletion=complete.projects),
    ] = "",
    host: Annotated[str, typer.Option("--host", help="Storage host; the default one if not given.")] = "",
    as_json: AsJson = False,
) -> None:
    """Create an empty folder: your own, or a project's."""
    folder = get_client(context).folders.create(name, project=project, host=host)
    if as_json:
        show_json(folder)
    else:
        say(folder.id)


@app.command("show")
def show(context: typer.Context, folder: FolderName, as_json: AsJson = False) -> None:
    """Show a folder and its size."""
    found = get_client(context).folders.find(folder)
    if as_json:
        show_json(found)
        return
    usage = found.usage()
    more = "" if usage.is_complete else "more than "
    show_facts(
        {
            "id": found.id,
            "name": found.name,
            "owner": found.owner,
            "project": found.project,
            "state": found.state,
            "host": found.host,
            "holds": f"{more}{usage.file_count} files, {format_bytes(usage.size_bytes)}",
            "created": format_instant(found.created_at),
        }
    )


@app.command("usage")
def usage(context: typer.Context, folder: FolderName, as_json: AsJson = False) -> None:
    """Count the size and the files of a folder."""
    counted = get_client(context).folders.find(folder).usage()
    if as_json:
        show_json(counted)
        return
    more = "" if counted.is_complete else "more than "
    show_facts({"files": f"{more}{counted.file_count}", "size": f"{more}{format_bytes(counted.size_bytes)}"})


@app.command("delete")
def delete(context: typer.Context, folder: FolderName, yes: Yes = False) -> None:
    """Delete a folder with all its contents. Cannot be undone."""
    found = get_client(context).folders.find(folder)
    _confirm(f"Delete the folder “{found.name}” with all it holds?", yes=yes)
    found.delete()
    note(f"Deleted {found.name}.")


@app.command("files")
def list_files(
    context: typer.Context,
    folder: FolderName,
    path: Annotated[str, typer.Argument(help="Directory in the folder.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """List a directory of a folder."""
    listing = get_client(context).folders.find(folder).files.list(path)
    if as_json:
        show_json(listing)
        return
    rows = [
        (
            f"{one.name}/" if one.is_directory else one.name,
            "" if one.is_directory else format_bytes(one.size_bytes),
            format_age(one.modified_at),
            "" if one.kind in ("file", "directory") else one.kind,
        )
        for one in listing.entries
    ]
    show_table(("name", "size", "age", "kind"), rows, empty="Empty.")
    if not listing.is_complete:
        note(f"There are more; these are the first {len(rows)}.")


@app.command("upload")
def upload(
    context: typer.Context,
    folder: FolderName,
    local: Annotated[
        list[str], typer.Argument(metavar="LOCAL…", help="Local files and directories.", show_default=False)
    ],
    to: Annotated[str, typer.Option("--to", help="Target: a directory in the folder, or a new name.")] = "",
) -> None:
    """Copy local files and directories into a folder, by the rules of `berth cp`."""
    files = get_client(context).folders.find(folder).files
    if len(local) > 1 and to and not to.endswith("/"):
        to = f"{to}/"
    failed = 0
    for path in local:
        with watching() as watcher:
            tally = files.upload(path, to, watcher)
        show_tally(tally)
        failed += tally.failed
    if failed:
        raise typer.Exit(FAILED)


@app.command("download")
def download(
    context: typer.Context,
    folder: FolderName,
    path: Annotated[
        str,
        typer.Argument(
            help="File or directory in the folder; by default the whole folder.", show_default=False
        ),
    ] = "",
    to: Annotated[str, typer.Option("--to", help="Target: a local directory, or a new name.")] = ".",
) -> None:
    """Copy a file, a directory or the whole folder to this computer, by the rules of `berth cp`."""
    files = get_client(context).folders.find(folder).files
    with watching() as watcher:
        tally = files.download(path, to, watcher)
    show_tally(tally)
    if tally.failed:
        raise typer.Exit(FAILED)


@app.command("cat")
def cat(context: typer.Context, folder: FolderName, path: FolderPath) -> None:
    """Print the contents of a file."""
    for piece in get_client(context).folders.find(folder).files.read(path):
        write_bytes(piece)


@app.command("mkdir")
def mkdir(context: typer.Context, folder: FolderName, path: FolderPath) -> None:
    """Create a directory and its missing parents."""
    get_client(context).folders.find(folder).files.make_directory(path)


@app.command("rm")
def rm(context: typer.Context, folder: FolderName, path: FolderPath, yes: Yes = False) -> None:
    """Delete a file, or a directory with all its contents."""
    files = get_client(context).folders.find(folder).files
    if files.stat(path).is_directory:
        _confirm(f"Delete the directory “{path}” with all it holds?", yes=yes)
    files.delete(path)


def _confirm(question: str, *, yes: bool) -> None:
    import sys

    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput("This needs a yes, and nobody can be asked.", hint="Add --yes.")
    typer.confirm(question, abort=True, err=True)
