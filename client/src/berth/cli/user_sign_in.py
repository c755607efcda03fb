"""Commands of `user` about sign-in: settings, second factor, sign-out, password mail."""

from typing import Annotated, Any

import typer

from berth.cli.confirming import Confirm, require_typed_name
from berth.cli.context import AsJson, get_client
from berth.cli.output import note, show_facts, show_json
from berth.cli.users import UserName, app
from berth.people import SignIn

__all__ = ["app"]


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
    _show(state, as_json=as_json)


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


def _show(state: SignIn, *, as_json: bool) -> None:
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
