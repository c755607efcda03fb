"""Commands `folder share`, `shares`, `invitations`, `link` and others: sharing of folders."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from berth.amounts import format_bytes, format_instant
from berth.cli import complete
from berth.cli.context import AsJson, FolderName, get_client
from berth.cli.output import note, say, show_json, show_table
from berth.errors import InvalidInput, NotFound
from berth.sharing import FolderInvitation, Share

Right = Annotated[str, typer.Option("--right", "-r", help="read, write or delete.")]
Days = Annotated[int, typer.Option("--days", help="End after so many days; 0: never.")]
Person = Annotated[str, typer.Argument(help="E-mail address or name.", show_default=False)]
Project = Annotated[
    str,
    typer.Option("--project", "-p", help="Project, instead of a person.", autocompletion=complete.projects),
]
Invitation = Annotated[
    str, typer.Argument(help="Id of the invitation, or name of the folder.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to `berth folder`."""
    for name, command in (
        ("share", share),
        ("shares", list_shares),
        ("unshare", unshare),
        ("end-sessions", end_sessions),
        ("leave", leave),
        ("transfer", transfer),
        ("invitations", list_invitations),
        ("accept", accept),
        ("decline", decline),
        ("link", link),
        ("links", list_links),
        ("unlink", unlink),
    ):
        app.command(name)(command)


def share(
    context: typer.Context,
    folder: FolderName,
    person: Person = "",
    project: Project = "",
    right: Right = "read",
    days: Days = 0,
    as_json: AsJson = False,
) -> None:
    """Invite a person to a folder, or share it with a project; again with another right to change it."""
    sharing = get_client(context).folders.find(folder).sharing
    expires_at = (datetime.now(UTC) + timedelta(days=days)).isoformat() if days else None
    known = [each for each in sharing.list() if _is_for(each, person, project)]
    if known:
        made = sharing.change(known[0].id, right=right, expires_at=expires_at)
    else:
        made = sharing.share(right, person=person, project=project, expires_at=expires_at)
    if as_json:
        show_json(made)
    else:
        say(made.id)


def list_shares(context: typer.Context, folder: FolderName, as_json: AsJson = False) -> None:
    """List with whom a folder is shared."""
    sharing = get_client(context).folders.find(folder).sharing
    shares = sharing.list()
    if as_json:
        show_json(shares)
        return
    rows = [
        (
            one.person or one.project or "",
            one.right,
            "invited" if one.is_open else "accepted",
            format_instant(one.answer_by if one.is_open else one.expires_at),
            one.id,
        )
        for one in shares
    ]
    show_table(("with", "right", "state", "until", "id"), rows, empty="Nobody. Share it: berth folder share.")
    if left := sharing.sessions_without_right():
        names = ", ".join(f"{one.name} ({one.owner})" for one in left)
        note(f"Sessions that still mount it without a right: {names}. End them: berth folder end-sessions.")


def unshare(context: typer.Context, folder: FolderName, person: Person = "", project: Project = "") -> None:
    """Take back a right, or withdraw an invitation. Uploads and downloads under way end."""
    sharing = get_client(context).folders.find(folder).sharing
    known = [each for each in sharing.list() if _is_for(each, person, project)]
    if not known:
        raise NotFound("The folder is not shared with them.", hint="With whom it is: berth folder shares.")
    for each in known:
        sharing.revoke(each.id)
    if left := sharing.sessions_without_right():
        names = ", ".join(one.name for one in left)
        note(f"These sessions keep it mounted until they end: {names}. End them: berth folder end-sessions.")


def end_sessions(context: typer.Context, folder: FolderName) -> None:
    """End all sessions that mount a folder without a right to it any more."""
    sharing = get_client(context).folders.find(folder).sharing
    left = sharing.sessions_without_right()
    ended = sharing.end_sessions(tuple(one.id for one in left)) if left else 0
    note(f"Ended {ended}.")


def leave(context: typer.Context, folder: FolderName) -> None:
    """Give back a folder that is shared with you."""
    get_client(context).folders.find(folder).sharing.leave()


def transfer(context: typer.Context, folder: FolderName, person: Person) -> None:
    """Offer a folder to a new owner, who has to accept it."""
    made = get_client(context).folders.find(folder).sharing.share("owner", person=person)
    say(made.id)


def list_invitations(context: typer.Context, as_json: AsJson = False) -> None:
    """List the invitations to folders that you can answer."""
    invitations = get_client(context).folders.invitations.list()
    if as_json:
        show_json(invitations)
        return
    rows = [
        (
            one.folder.name,
            one.inviter or "",
            one.right,
            format_bytes(one.folder.size_bytes),
            format_instant(one.answer_by),
            one.id,
        )
        for one in invitations
    ]
    show_table(("folder", "by", "right", "size", "answer by", "id"), rows, empty="None.")


def accept(context: typer.Context, invitation: Invitation) -> None:
    """Accept an invitation to a folder."""
    found = _find_invitation(context, invitation)
    folder = get_client(context).folders.invitations.accept(found.id)
    say(folder.id)


def decline(context: typer.Context, invitation: Invitation) -> None:
    """Decline an invitation to a folder."""
    get_client(context).folders.invitations.decline(_find_invitation(context, invitation).id)


def link(
    context: typer.Context,
    folder: FolderName,
    path: Annotated[
        str, typer.Argument(help="File or directory in the folder; empty: all of it.", show_default=False)
    ] = "",
    days: Annotated[int, typer.Option("--days", help="End after so many days.")] = 7,
    downloads: Annotated[int, typer.Option("--downloads", help="Most downloads; 0: any number.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Create a public link to a file or directory and print it. Anybody who has it can download that."""
    sharing = get_client(context).folders.find(folder).sharing
    made = sharing.create_link(path, days=days, max_downloads=downloads or None)
    if as_json:
        show_json(made)
    else:
        say(made.url)


def list_links(context: typer.Context, folder: FolderName, as_json: AsJson = False) -> None:
    """List the public links of a folder."""
    links = get_client(context).folders.find(folder).sharing.links()
    if as_json:
        show_json(links)
        return
    rows = [
        (
            one.path,
            format_instant(one.expires_at),
            f"{one.downloads}/{one.max_downloads or '∞'}",
            one.creator,
            one.id,
        )
        for one in links
    ]
    show_table(("file", "until", "downloads", "by", "id"), rows, empty="None.")


def unlink(
    context: typer.Context,
    folder: FolderName,
    link_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the link.", show_default=False)],
) -> None:
    """Revoke a public link."""
    get_client(context).folders.find(folder).sharing.revoke_link(link_id)


def _is_for(share: Share, person: str, project: str) -> bool:
    if share.right == "owner":
        return False
    return share.project == project if project else share.person == person.strip().lower()


def _find_invitation(context: typer.Context, text: str) -> FolderInvitation:
    invitations = get_client(context).folders.invitations.list()
    found = [one for one in invitations if text in (one.id, one.folder.name)]
    if not found:
        raise NotFound(
            f"There is no invitation “{text[:80]}”.", hint="Which there are: berth folder invitations."
        )
    if len(found) > 1:
        raise InvalidInput(f"Several folders are called “{text[:80]}”.", hint="Use the id of the invitation.")
    return found[0]
