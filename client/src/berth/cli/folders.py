"""Commands `folder`: manage folders and their files."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from berth.amounts import format_age, format_bytes, format_instant
from berth.cli import complete
from berth.cli.context import AsJson, FolderName, get_client
from berth.cli.copying import cp, parse_address, watching
from berth.cli.exits import FAILED
from berth.cli.output import note, say, show_facts, show_json, show_table, show_tally, write_bytes
from berth.cli.storage_use import parse_size
from berth.errors import InvalidInput, NotFound, Refused
from berth.files import FolderFiles
from berth.models import FileOperation
from berth.storage_use import DirectoryReport
from berth.sync import Sync

app = typer.Typer(no_args_is_help=True, help="Folders, which outlive sessions, and the files in them.")

LOOK_S = 0.5
"""Interval of looks at what the portal does in the background."""

FolderPath = Annotated[str, typer.Argument(help="Path in the folder.", show_default=False)]
Target = Annotated[str, typer.Argument(help="A directory in the folder, or a new name.", show_default=False)]
IfTaken = Annotated[
    str, typer.Option("--if-taken", help="If the name is taken: refuse, keep_both, replace or skip.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@app.command("ls")
def list_folders(
    context: typer.Context,
    trash: Annotated[bool, typer.Option("--trash", help="Those in the trash.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the folders that you may see."""
    of_client = get_client(context).folders
    folders = list(of_client.trash() if trash else of_client.list())
    if as_json:
        show_json(folders)
        return
    rows = [
        (
            one.name,
            one.owner or "",
            one.project or "",
            one.state,
            one.mode,
            one.host,
            format_age(one.created_at),
            format_bytes(one.size_bytes) + ("" if one.is_size_whole else "+"),
            format_age(one.measured_at) or "never",
            one.id,
            *([format_instant(one.expires_at)] if trash else []),
        )
        for one in folders
    ]
    columns = (
        "name",
        "owner",
        "project",
        "state",
        "mode",
        "host",
        "age",
        "size",
        "counted",
        "id",
        *(["expires"] if trash else []),
    )
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
    mode: Annotated[
        str,
        typer.Option(
            "--mode", help="general, data, model, pipeline, or auto_mount: .NAME, in all your sessions."
        ),
    ] = "general",
    as_json: AsJson = False,
) -> None:
    """Create an empty folder: your own, or a project's."""
    folder = get_client(context).folders.create(name, project=project, host=host, mode=mode)
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
            "mode": found.mode,
            "host": found.host,
            "holds": f"{more}{usage.file_count} files, {format_bytes(usage.size_bytes)}",
            "created": format_instant(found.created_at),
        }
    )


@app.command("usage")
def usage(
    context: typer.Context,
    folder: FolderName,
    path: Annotated[str, typer.Argument(help="Directory in the folder.", show_default=False)] = "",
    again: Annotated[
        bool, typer.Option("--again", help="Count the directories again, and wait for it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the size of a folder, counted now, and its biggest directories, as counted last."""
    found = get_client(context).folders.find(folder)
    if again:
        found.count_directories()
        while found.directories().is_awaited:
            time.sleep(LOOK_S)
    counted = found.usage()
    try:
        report = found.directories(path)
    except Refused:  # monitors see sizes, but no names of directories
        report = DirectoryReport()
    if as_json:
        show_json({**counted.raw, "directories": report.raw})
        return
    more = "" if counted.is_complete else "more than "
    files = {} if counted.file_count is None else {"files": f"{more}{counted.file_count}"}
    show_facts({**files, "size": f"{more}{format_bytes(counted.size_bytes)}"})
    if report.problem:
        note(f"The last count of its directories failed: {report.problem}")
    if report.counted_at is None:
        note("Its directories were never counted: add --again.")
        return
    rows = [(f"{one.name}/", format_bytes(one.size_bytes), str(one.file_count)) for one in report.directories]
    if report.own_count:
        rows.append(("files here", format_bytes(report.own_bytes or 0), str(report.own_count)))
    show_table(("directory", "size", "files"), rows, empty="Empty.")
    note(f"Counted {format_age(report.counted_at)} ago.")


@app.command("quota")
def set_quota(
    context: typer.Context,
    folder: FolderName,
    size: Annotated[str, typer.Argument(metavar="SIZE", help="Like 500g or 2t; none removes it.")],
    as_json: AsJson = False,
) -> None:
    """Set the largest size of a folder."""
    changed = get_client(context).folders.find(folder).set_quota(parse_size(size))
    if as_json:
        show_json(changed)


@app.command("rename")
def rename(
    context: typer.Context,
    folder: FolderName,
    name: Annotated[str, typer.Argument(help="The new name.", show_default=False)],
) -> None:
    """Rename a folder. Sessions that run keep the path at which they mount it."""
    note(f"It is called {get_client(context).folders.find(folder).change(name=name).name} now.")


@app.command("mode")
def change_mode(
    context: typer.Context,
    folder: FolderName,
    mode: Annotated[str, typer.Argument(help="general, data, model or pipeline.", show_default=False)],
) -> None:
    """Change what a folder is for."""
    note(f"The mode is {get_client(context).folders.find(folder).change(mode=mode).mode} now.")


@app.command("clone")
def clone(
    context: typer.Context,
    folder: FolderName,
    name: Annotated[str, typer.Argument(help="Name of the new folder.", show_default=False)],
    project: Annotated[
        str,
        typer.Option("--project", "-p", help="Give it to a project.", autocompletion=complete.projects),
    ] = "",
    host: Annotated[str, typer.Option("--host", help="Storage host; that of the source if not given.")] = "",
    mode: Annotated[str, typer.Option("--mode", help="Mode; that of the source if not given.")] = "",
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Do not wait until all is copied.")] = False,
) -> None:
    """Copy a folder into a new one, and wait for it. Ctrl-C ends the waiting, not the copy;
    `berth folder trash ID` cancels the copy.
    """
    made = get_client(context).folders.find(folder).copy_to(name, project=project, host=host, mode=mode)
    say(made.id)
    if detach:
        return
    said = ""
    while made.state == "cloning" and made.clone is not None:
        if made.clone.error:
            note(made.clone.error)
            raise typer.Exit(FAILED)
        done = f"{format_bytes(made.clone.bytes_done)} of {format_bytes(made.clone.bytes_total)}"
        if (line := f"{done}, {made.clone.files_done} files") != said:
            note(line)
            said = line
        time.sleep(LOOK_S)
        made = made.reload()
    note(f"{made.name} is ready.")


@app.command("trash")
def put_in_trash(
    context: typer.Context,
    folders: Annotated[list[str], typer.Argument(help="Folders, by name or id.", show_default=False)],
) -> None:
    """Put folders in the trash, from where they can be restored until they expire."""
    for folder in folders:
        found = get_client(context).folders.find(folder)
        found.delete()
        note(f"{found.name} is in the trash." if found.state == "ready" else f"Cancelled {found.name}.")


app.command("delete", help="The same as `berth folder trash`.")(put_in_trash)


@app.command("restore")
def restore(
    context: typer.Context,
    folders: Annotated[
        list[str], typer.Argument(help="Folders in the trash, by name or id.", show_default=False)
    ],
    name: Annotated[str, typer.Option("--name", help="Another name, for one folder.")] = "",
) -> None:
    """Take folders out of the trash."""
    if name and len(folders) > 1:
        raise InvalidInput("--name is for one folder.", hint="Restore them one by one.")
    for folder in folders:
        note(f"{get_client(context).folders.find_in_trash(folder).restore(name=name).name} is back.")


@app.command("purge")
def purge(
    context: typer.Context,
    folders: Annotated[
        list[str], typer.Argument(help="Folders in the trash, by name or id.", show_default=False)
    ],
    yes: Yes = False,
) -> None:
    """Delete folders in the trash for ever, with all they hold."""
    found = [get_client(context).folders.find_in_trash(folder) for folder in folders]
    names = ", ".join(each.name for each in found)
    _confirm(f"Delete {names} for ever, with all files?", yes=yes)
    for each in found:
        each.purge()
        note(f"{each.name} is removed for ever.")


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


app.command("cp", help="The same as `berth cp`.")(cp)


@app.command("sync")
def sync(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="Directory here, or NAME:PATH.", show_default=False)],
    target: Annotated[str, typer.Argument(help="The other side.", show_default=False)],
    delete: Annotated[bool, typer.Option("--delete", help="Delete what the source lacks.")] = False,
    checksum: Annotated[
        bool, typer.Option("--checksum", help="Compare contents, which reads both sides.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only say what would be done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the steps, or their sum, as JSON.")] = False,
) -> None:
    """Make a directory of a folder like a local one, or the other way round.

    A file is copied if the target lacks it, has another size, or is older. Large files go on where
    an interrupted run stopped. What --delete removes in a folder is in its trash for a while.
    """
    there_from, there_to = parse_address(source), parse_address(target)
    if bool(there_from) == bool(there_to):
        raise InvalidInput("One side is here, the other NAME:PATH.", hint="./ keeps a colon in a local path.")
    there, here = (there_to, source) if there_to else (there_from, target)
    assert there is not None
    files = get_client(context).folders.find(there.name).files
    run = Sync(files, there.path, Path(here), is_upload=bool(there_to), by_content=checksum)
    with watching() as watcher:
        steps = run.plan(deletes=delete, watcher=watcher)
        if dry_run:
            if as_json:
                show_json([asdict(step) for step in steps])
                return
            for step in steps:
                say(f"{step.kind} {step.path}")
            return
        tally = run.apply(steps, watcher)
    if as_json:
        show_json(asdict(tally))
    else:
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
def rm(
    context: typer.Context,
    folder: FolderName,
    path: FolderPath,
    yes: Yes = False,
    forever: Annotated[
        bool, typer.Option("--forever", help="Remove it at once instead of putting it into the trash.")
    ] = False,
) -> None:
    """Delete a file, or a directory with all its contents. It waits in the trash of the folder for 7 days."""
    files = get_client(context).folders.find(folder).files
    if files.stat(path).is_directory:
        _confirm(f"Delete the directory “{path}” with all it holds?", yes=yes)
    if forever:
        files.delete(path)
        return
    batch = files.trash(path)
    note(f"Undo: berth folder restore-files {folder} {batch}")


@app.command("restore-files")
def restore_files(
    context: typer.Context,
    folder: FolderName,
    batch: Annotated[str, typer.Argument(help="What “berth folder rm” said.", show_default=False)],
) -> None:
    """Bring deleted files back to where they were."""
    get_client(context).folders.find(folder).files.restore(batch)


@app.command("mv")
def mv(
    context: typer.Context,
    folder: FolderName,
    path: FolderPath,
    to: Target,
    taken: IfTaken = "refuse",
    as_json: AsJson = False,
) -> None:
    """Move or rename a file or directory within a folder."""
    files = get_client(context).folders.find(folder).files
    _place(files, "move", path, to, taken=taken, as_json=as_json)


@app.command("cp-within")
def cp_within(
    context: typer.Context,
    folder: FolderName,
    path: FolderPath,
    to: Target,
    taken: IfTaken = "refuse",
    as_json: AsJson = False,
) -> None:
    """Copy a file, or a directory with all its contents, within a folder."""
    files = get_client(context).folders.find(folder).files
    _place(files, "copy", path, to, taken=taken, as_json=as_json)


@app.command("unpack")
def unpack(
    context: typer.Context,
    folder: FolderName,
    path: FolderPath,
    to: Annotated[
        str, typer.Argument(help="Directory for the contents; by default that of the archive.")
    ] = "",
    taken: IfTaken = "refuse",
    as_json: AsJson = False,
) -> None:
    """Unpack a ZIP, tar, tar.gz or tar.bz2 archive of a folder in the folder."""
    files = get_client(context).folders.find(folder).files
    directory = to or path.rpartition("/")[0]
    _finish(files, files.start("unpack", path, to=directory, taken=taken), as_json=as_json)


@app.command("find")
def find(
    context: typer.Context,
    folder: FolderName,
    words: Annotated[str, typer.Argument(help="Part of the name, or a pattern with * and ?.")],
    path: Annotated[str, typer.Argument(help="Directory in the folder.", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """Find files and directories of a folder by their names, at any depth."""
    hits = get_client(context).folders.find(folder).files.search(words, path)
    if as_json:
        show_json(list(hits))
        return
    for hit in hits:
        say(f"{hit.path}/" if hit.kind == "directory" else hit.path)


def _place(files: FolderFiles, kind: str, path: str, to: str, *, taken: str, as_json: bool) -> None:
    """Move or copy an entry to `to`, and say what came of it."""
    directory, name = _target(files, to)
    operation = files.start(kind, path, to=directory, name=name, taken=taken)
    _finish(files, operation, as_json=as_json)


def _target(files: FolderFiles, to: str) -> tuple[str, str]:
    """Return (directory, new name or "")."""
    directory = to.removesuffix("/")
    if not to.endswith("/"):
        try:
            is_directory = files.stat(to).is_directory
        except NotFound:
            is_directory = False
        if not is_directory:
            directory, _slash, name = to.rpartition("/")
            return directory, name
    return directory, ""


def _finish(files: FolderFiles, operation: FileOperation, *, as_json: bool) -> None:
    """Wait until the operation has ended, and say what came of it."""
    while not operation.has_ended:
        time.sleep(LOOK_S)
        operation = files.operation(operation.id)
    if as_json:
        show_json(operation)
    else:
        for left_out in operation.left_out:
            note(f"Left out, a link or device: {left_out}")
    if operation.state != "done":
        raise Refused(operation.error or f"The operation was {operation.state}.")


def _confirm(question: str, *, yes: bool) -> None:
    import sys

    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput("This needs a yes, and nobody can be asked.", hint="Add --yes.")
    typer.confirm(question, abort=True, err=True)
