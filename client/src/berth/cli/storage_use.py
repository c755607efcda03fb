"""Commands `storage`: how much storage is used, of which limits."""

from collections.abc import Iterable
from typing import Annotated

import typer

from berth.amounts import format_age, format_bytes, parse_bytes
from berth.cli.context import AsJson, get_client
from berth.cli.output import say, show_json, show_table
from berth.errors import InvalidInput
from berth.folders import Folder
from berth.storage_use import Total

app = typer.Typer(no_args_is_help=True, help="Storage: what is used, by whom, and its limits.")

OnHost = Annotated[str, typer.Option("--host", metavar="HOST", help="Only folders on this storage host.")]


@app.command("show")
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Show your storage and the limits that apply to you."""
    status = get_client(context).storage.status()
    if as_json:
        show_json(status)
        return
    most = "" if status.most_folders is None else f" of {status.most_folders}"
    say(f"{format_bytes(status.used_bytes)} in {status.folder_count}{most} folders")
    rows = [
        (one.level, one.scope, format_bytes(one.used_bytes), format_bytes(one.limit_bytes))
        for one in status.limits
    ]
    show_table(("limit", "name", "used", "most"), rows, empty="No limit applies.")


@app.command("folders")
def folders(
    context: typer.Context,
    owner: Annotated[str, typer.Option("--owner", help="Part of the owner's e-mail.")] = "",
    project: Annotated[str, typer.Option("--project", "-p", help="Only of this project.")] = "",
    host: OnHost = "",
    state: Annotated[str, typer.Option("--state", help="ready, cloning or trashed.")] = "",
    as_json: AsJson = False,
) -> None:
    """List all folders that you administer, the biggest first."""
    asked = {"owner": owner, "project": project, "host": host, "state": state}
    given = {name: value for name, value in asked.items() if value}
    found = list(get_client(context).folders.administered(**given))
    if as_json:
        show_json(found)
        return
    show_table(
        ("name", "owner", "host", "size", "quota", "state", "used", "id"), map(_row, found), empty="None."
    )


@app.command("users")
def users(context: typer.Context, host: OnHost = "", as_json: AsJson = False) -> None:
    """List how much storage each user uses, the biggest first."""
    _show(get_client(context).storage.users(host), as_json=as_json)


@app.command("projects")
def projects(context: typer.Context, host: OnHost = "", as_json: AsJson = False) -> None:
    """List how much storage each project uses, the biggest first."""
    _show(get_client(context).storage.projects(host), as_json=as_json)


@app.command("hosts")
def hosts(context: typer.Context, as_json: AsJson = False) -> None:
    """List how much is stored on each storage host."""
    _show(get_client(context).storage.hosts(), as_json=as_json)


@app.command("limit-host")
def limit_host(
    context: typer.Context,
    host: Annotated[str, typer.Argument(metavar="HOST", help="Name, or id.", show_default=False)],
    whole: Annotated[str, typer.Option("--all", metavar="SIZE", help="Of all folders together.")] = "none",
    user: Annotated[
        str, typer.Option("--user", metavar="SIZE", help="Of the folders of each user.")
    ] = "none",
    project: Annotated[
        str, typer.Option("--project", metavar="SIZE", help="Of the folders of each project.")
    ] = "none",
    as_json: AsJson = False,
) -> None:
    """Set the limits of a storage host, like 20t or 500g; what is not given is unlimited (superadmins)."""
    client = get_client(context)
    limits = client.storage.set_host_limits(
        client.storage_hosts.find(host).id,
        max_bytes=parse_size(whole),
        max_user_bytes=parse_size(user),
        max_project_bytes=parse_size(project),
    )
    if as_json:
        show_json(limits)


def parse_size(text: str) -> int | None:
    """Return bytes of "500g"; None for "none". Raises InvalidInput."""
    if text == "none":
        return None
    try:
        return parse_bytes(text)
    except ValueError as exc:
        raise InvalidInput(f"“{text[:40]}” is no size.", hint="Write it like 500g, 20t or none.") from exc


def _row(one: Folder) -> tuple[str, ...]:
    return (
        one.name,
        one.owner or f"project {one.project}",
        one.host,
        format_bytes(one.size_bytes),
        "" if one.quota_bytes is None else format_bytes(one.quota_bytes),
        one.state,
        format_age(one.used_at) or "never",
        one.id,
    )


def _show(totals: Iterable[Total], *, as_json: bool) -> None:
    found = list(totals)
    if as_json:
        show_json(found)
        return
    rows = [
        (
            one.name,
            format_bytes(one.used_bytes),
            "" if one.limit_bytes is None else format_bytes(one.limit_bytes),
            str(one.folder_count),
            ("-" if one.growth_bytes < 0 else "+") + format_bytes(abs(one.growth_bytes)),
        )
        for one in found
    ]
    show_table(("name", "used", "most", "folders", "30 days"), rows, empty="None.")
