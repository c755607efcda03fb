"""Commands `user`: manage users (administrators)."""

from typing import Annotated, Any

import typer

from berth.amounts import format_age
from berth.cli.confirming import Confirm, require_typed_name
from berth.cli.context import AsJson, get_client
from berth.cli.output import note, say, show_facts, show_json, show_table
from berth.cli.user_import import import_users, show_import
from berth.errors import InvalidInput
from berth.people import Account, Closing, SignIn

app = typer.Typer(no_args_is_help=True, help="Users: accounts that you may see or administer.")
app.command("import")(import_users)
app.command("import-status")(show_import)

UserName = Annotated[
    str, typer.Argument(metavar="USER", help="E-mail address or number.", show_default=False)
]
Role = Annotated[str, typer.Option("--role", help="user, domain_admin, superadmin or a monitor.")]
DomainName = Annotated[str, typer.Option("--domain", help="Name of a domain.")]


@app.command("list")
def list_users(
    context: typer.Context,
    search: Annotated[str, typer.Argument(help="Part of address or name.", show_default=False)] = "",
    role: Role = "",
    domain: DomainName = "",
    project: Annotated[str, typer.Option("--project", help="In this project.")] = "",
    state: Annotated[str, typer.Option("--state", help="open or closed.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the users that you may see."""
    filters = {"q": search, "role": role, "domain": domain, "project": project, "state": state}
    found = list(get_client(context).users.list(**{name: value or None for name, value in filters.items()}))
    if as_json:
        show_json(found)
        return
    rows = [
        (
            one.id,
            one.email,
            one.name,
            one.role,
            one.domain,
            "open" if one.is_active else "closed",
            format_age(one.last_login),
        )
        for one in found
    ]
    show_table(("id", "e-mail", "name", "role", "domain", "state", "signed in"), rows, empty="Nobody.")


@app.command("show")
def show(context: typer.Context, user: UserName, as_json: AsJson = False) -> None:
    """Show a user."""
    _show(get_client(context).users.find(user), as_json=as_json)


@app.command("create")
def create(
    context: typer.Context,
    email: Annotated[str, typer.Argument(help="Address of the person.", show_default=False)],
    name: Annotated[str, typer.Option("--name", help="Name of the person.")] = "",
    role: Role = "",
    domain: DomainName = "",
    project: Annotated[
        list[str] | None, typer.Option("--project", "-p", help="Project to add the user to; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a user and print a link for the first sign-in; it works once, within a day."""
    given = {"name": name, "role": role, "domain": domain}
    wanted: dict[str, Any] = {field: value for field, value in given.items() if value}
    made = get_client(context).users.create(email=email, projects=project or [], **wanted)
    if as_json:
        show_json(made)
        return
    say(made.sign_in_url or str(made.id))


@app.command("edit")
def edit(
    context: typer.Context,
    user: UserName,
    email: Annotated[str, typer.Option("--email", help="New e-mail address.")] = "",
    name: Annotated[
        str | None, typer.Option("--name", help="New name; “” for none.", show_default=False)
    ] = None,
    role: Role = "",
    domain: DomainName = "",
    as_json: AsJson = False,
) -> None:
    """Change the address, name, role or domain of a user."""
    given = {"email": email or None, "name": name, "role": role or None, "domain": domain or None}
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes:
        raise InvalidInput("Nothing to change was given.", hint="--email, --name, --role or --domain")
    users = get_client(context).users
    changed = users.change(users.find(user).id, **changes)
    if as_json:
        show_json(changed)


@app.command("close")
def close(
    context: typer.Context,
    user: UserName,
    folders: Annotated[str, typer.Option("--folders", help="keep, hand_over or delete.")] = "keep",
    heir: Annotated[str, typer.Option("--heir", help="New owner of the folders, by e-mail.")] = "",
    confirm: Confirm = "",
    as_json: AsJson = False,
) -> None:
    """Close an account: logins, tokens and memberships end at once, sessions are stopped. `berth
    user open` reopens it.
    """
    users = get_client(context).users
    found = users.find(user)
    require_typed_name(found.email, confirm)
    _show_closing(users.close(found.id, folders=folders, heir=heir), as_json=as_json)


@app.command("closing")
def closing(context: typer.Context, user: UserName, as_json: AsJson = False) -> None:
    """Show what closing an account affects, and how far it is."""
    users = get_client(context).users
    _show_closing(users.closing(users.find(user).id), as_json=as_json)


@app.command("open")
def reopen(context: typer.Context, user: UserName, as_json: AsJson = False) -> None:
    """Reopen a closed account. Tokens and memberships are not restored."""
    users = get_client(context).users
    opened = users.reopen(users.find(user).id)
    if as_json:
        show_json(opened)


@app.command("purge")
def purge(context: typer.Context, user: UserName, confirm: Confirm = "") -> None:
    """Delete a closed account that has no folders any more."""
    users = get_client(context).users
    found = users.find(user)
    require_typed_name(found.email, confirm)
    users.delete(found.id)


@app.command("tokens")
def list_tokens(context: typer.Context, user: UserName, as_json: AsJson = False) -> None:
    """List the API tokens of a user whose account you may change."""
    users = get_client(context).users
    found = list(users.tokens(users.find(user).id))
    if as_json:
        show_json(found)
        return
    rows = [
        (one.id, one.name, ",".join(one.scopes), format_age(one.last_used_at), one.last_used_ip or "")
        for one in found
    ]
    show_table(("id", "name", "scopes", "used", "from"), rows, empty="None.")


@app.command("revoke-token")
def revoke_token(
    context: typer.Context,
    user: UserName,
    token: Annotated[int, typer.Argument(help="Number of the token.", show_default=False)],
) -> None:
    """Revoke a token of a user whose account you may change; programs are refused at once."""
    users = get_client(context).users
    users.revoke_token(users.find(user).id, token)


def _show(account: Account, *, as_json: bool) -> None:
    if as_json:
        show_json(account)
        return
    show_facts(
        {
            "id": account.id,
            "e-mail": account.email,
            "name": account.name,
            "role": account.role,
            "domain": account.domain,
            "state": "open" if account.is_active else "closed",
            "projects": ", ".join(
                f"{one.name} (admin)" if one.role == "admin" else one.name for one in account.projects
            ),
            "signed in": format_age(account.last_login),
        }
    )


def _show_closing(closing: Closing, *, as_json: bool) -> None:
    if as_json:
        show_json(closing)
        return
    report = closing.offboarding.report if closing.offboarding and not closing.is_active else ()
    rows = [(one.name or "access", one.sentence if one.is_done else "under way") for one in report]
    rows = rows or [(name, "") for name in closing.affected]
    show_table(("what", "result"), rows, empty="Nothing.")
    if closing.is_active:
        note("The account is open.")


@app.command("sign-in")
def sign_in(
    context: typer.Context,
    user: UserName,
    must_change: Annotated[
        bool | None,
        typer.Option(
            "--must-change/--need-not-change",
            help="Require a new password before anything else, or not.",
            show_default=False,
        ),
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option("--network", help="Allow the account only from this network; may be repeated."),
    ] = None,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Allow the account from everywhere.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show or change the sign-in settings of a user."""
    users = get_client(context).users
    found = users.find(user)
    changes: dict[str, Any] = {} if must_change is None else {"must_change_password": must_change}
    if network or everywhere:
        changes["allowed_networks"] = network or []
    state = users.change_sign_in(found.id, **changes) if changes else users.sign_in(found.id)
    _show_sign_in(state, as_json=as_json)


@app.command("reset-second-factor")
def reset_second_factor(context: typer.Context, user: UserName, confirm: Confirm = "") -> None:
    """Remove all second factors (app, passkeys, recovery codes) of a user who has lost them; the
    password alone then suffices.
    """
    users = get_client(context).users
    found = users.find(user)
    require_typed_name(found.email, confirm)
    users.reset_second_factor(found.id)


@app.command("sign-out")
def sign_out(context: typer.Context, user: UserName) -> None:
    """Sign a user out of every browser. Tokens stay valid."""
    users = get_client(context).users
    note(f"Signed out: {users.end_logins(users.find(user).id)}.")


@app.command("mail-password")
def mail_password(context: typer.Context, user: UserName) -> None:
    """Mail a user a link to choose a new password."""
    users = get_client(context).users
    users.mail_password_link(users.find(user).id)


def _show_sign_in(state: SignIn, *, as_json: bool) -> None:
    if as_json:
        show_json(state)
        return
    show_facts(
        {
            "has to change the password": "yes" if state.must_change_password else "no",
            "allowed networks": ", ".join(state.allowed_networks) or "everywhere",
            "password": "here" if state.has_password else "kept by a provider or a directory",
            "second factor": "yes" if state.has_second_factor else "no",
            "browsers": state.logins,
        }
    )
