"""Commands `project` and `domain`: manage projects, their members and domains (administrators)."""

from typing import Annotated

import typer

from berth.cli import complete
from berth.cli.confirming import Confirm, require_typed_name
from berth.cli.context import AsJson, get_client
from berth.cli.output import say, show_facts, show_json, show_table
from berth.errors import InvalidInput
from berth.people import Domains, Group, Projects

project_app = typer.Typer(no_args_is_help=True, help="Projects that you can see, and their members.")
domain_app = typer.Typer(no_args_is_help=True, help="Domains: for superadmins.")

ProjectName = Annotated[
    str,
    typer.Argument(
        metavar="PROJECT", help="Name or number.", autocompletion=complete.projects, show_default=False
    ),
]
DomainName = Annotated[str, typer.Argument(metavar="DOMAIN", help="Name or number.", show_default=False)]
NewName = Annotated[
    str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and dashes.", show_default=False)
]
Name = Annotated[str, typer.Option("--name", help="New name.")]
Title = Annotated[
    str | None, typer.Option("--title", help="A title for people; “” for none.", show_default=False)
]
Email = Annotated[str, typer.Argument(metavar="EMAIL", help="Address of the person.", show_default=False)]


@project_app.command("ls", hidden=True)
@project_app.command("list")
def list_projects(
    context: typer.Context,
    domain: Annotated[str, typer.Option("--domain", help="Of this domain.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the projects."""
    _list(list(get_client(context).managed_projects.list(domain=domain or None)), as_json=as_json)


@project_app.command("show")
def show_project(context: typer.Context, project: ProjectName, as_json: AsJson = False) -> None:
    """Show a project."""
    _show(get_client(context).managed_projects.find(project), as_json=as_json)


@project_app.command("create")
def create_project(
    context: typer.Context,
    name: NewName,
    title: Title = None,
    domain: Annotated[str, typer.Option("--domain", help="Domain of the project; by default yours.")] = "",
    as_json: AsJson = False,
) -> None:
    """Create a project."""
    made = get_client(context).managed_projects.create(name=name, title=title or "", domain=domain)
    show_json(made) if as_json else say(str(made.id))


@project_app.command("edit")
def edit_project(
    context: typer.Context,
    project: ProjectName,
    name: Name = "",
    title: Title = None,
    as_json: AsJson = False,
) -> None:
    """Change the name or title of a project."""
    _edit(get_client(context).managed_projects, project, name, title, as_json=as_json)


@project_app.command("close")
def close_project(context: typer.Context, project: ProjectName, as_json: AsJson = False) -> None:
    """Archive a project: nobody can work in it any more; its data stays."""
    _switch(get_client(context).managed_projects, project, is_active=False, as_json=as_json)


@project_app.command("open")
def open_project(context: typer.Context, project: ProjectName, as_json: AsJson = False) -> None:
    """Restore an archived project."""
    _switch(get_client(context).managed_projects, project, is_active=True, as_json=as_json)


@project_app.command("purge")
def purge_project(context: typer.Context, project: ProjectName, confirm: Confirm = "") -> None:
    """Delete an archived project that has no folders and no sessions in its history."""
    _purge(get_client(context).managed_projects, project, confirm)


@project_app.command("members")
def list_members(context: typer.Context, project: ProjectName, as_json: AsJson = False) -> None:
    """List the members of a project."""
    projects = get_client(context).managed_projects
    found = list(projects.members(projects.find(project).id))
    if as_json:
        show_json(found)
        return
    show_table(
        ("e-mail", "name", "role"), [(one.email, one.name, one.role) for one in found], empty="Nobody."
    )


@project_app.command("add")
def add_member(
    context: typer.Context,
    project: ProjectName,
    email: Email,
    role: Annotated[str, typer.Option("--role", help="member or admin.")] = "member",
    as_json: AsJson = False,
) -> None:
    """Add a user to a project, or change the role of a member."""
    projects = get_client(context).managed_projects
    member = projects.add_member(projects.find(project).id, email, role=role)
    if as_json:
        show_json(member)


@project_app.command("remove")
def remove_member(context: typer.Context, project: ProjectName, email: Email) -> None:
    """Remove a user from a project."""
    projects = get_client(context).managed_projects
    projects.remove_member(projects.find(project).id, email)


@domain_app.command("list")
def list_domains(context: typer.Context, as_json: AsJson = False) -> None:
    """List the domains."""
    _list(list(get_client(context).domains.list()), as_json=as_json)


@domain_app.command("show")
def show_domain(context: typer.Context, domain: DomainName, as_json: AsJson = False) -> None:
    """Show a domain."""
    _show(get_client(context).domains.find(domain), as_json=as_json)


@domain_app.command("create")
def create_domain(
    context: typer.Context, name: NewName, title: Title = None, as_json: AsJson = False
) -> None:
    """Create a domain."""
    made = get_client(context).domains.create(name=name, title=title or "")
    show_json(made) if as_json else say(str(made.id))


@domain_app.command("edit")
def edit_domain(
    context: typer.Context, domain: DomainName, name: Name = "", title: Title = None, as_json: AsJson = False
) -> None:
    """Change the name or title of a domain."""
    _edit(get_client(context).domains, domain, name, title, as_json=as_json)


@domain_app.command("close")
def close_domain(
    context: typer.Context, domain: DomainName, confirm: Confirm = "", as_json: AsJson = False
) -> None:
    """Close a domain: its users cannot sign in; its data stays."""
    domains = get_client(context).domains
    require_typed_name(domains.find(domain).name, confirm)
    _switch(domains, domain, is_active=False, as_json=as_json)


@domain_app.command("open")
def open_domain(context: typer.Context, domain: DomainName, as_json: AsJson = False) -> None:
    """Reopen a closed domain."""
    _switch(get_client(context).domains, domain, is_active=True, as_json=as_json)


@domain_app.command("purge")
def purge_domain(context: typer.Context, domain: DomainName, confirm: Confirm = "") -> None:
    """Delete a closed domain without users, projects and history."""
    _purge(get_client(context).domains, domain, confirm)


def _list(found: list[Group], *, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    rows = [(one.name, one.title, one.domain, "open" if one.is_active else "closed", one.id) for one in found]
    show_table(("name", "title", "domain", "state", "id"), rows, empty="None.")


def _show(group: Group, *, as_json: bool) -> None:
    if as_json:
        show_json(group)
        return
    facts = {"id": group.id, "name": group.name, "title": group.title, "domain": group.domain}
    show_facts({**facts, "state": "open" if group.is_active else "closed"})


def _edit(groups: Projects | Domains, text: str, name: str, title: str | None, *, as_json: bool) -> None:
    given = {"name": name or None, "title": title}
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes:
        raise InvalidInput("Nothing to change was given.", hint="--name or --title")
    changed = groups.change(groups.find(text).id, **changes)
    if as_json:
        show_json(changed)


def _switch(groups: Projects | Domains, text: str, *, is_active: bool, as_json: bool) -> None:
    changed = groups.change(groups.find(text).id, is_active=is_active)
    if as_json:
        show_json(changed)


def _purge(groups: Projects | Domains, text: str, confirm: str) -> None:
    found = groups.find(text)
    require_typed_name(found.name, confirm)
    groups.delete(found.id)
