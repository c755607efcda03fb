"""Commands `token`: manage the user's API tokens."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from berth.amounts import format_age, format_instant
from berth.cli import complete
from berth.cli.confirming import Confirm, require_typed_name
from berth.cli.context import AsJson, get_client
from berth.cli.output import note, say, show_json, show_table
from berth.errors import InvalidInput
from berth.models import KeyPair

app = typer.Typer(no_args_is_help=True, help="API tokens, with which programs act as you.")

SCOPES = ("read", "sessions", "folders", "admin")
NEVER = "never"
TokenName = Annotated[
    str,
    typer.Argument(
        metavar="TOKEN", help="Name or number.", autocompletion=complete.tokens, show_default=False
    ),
]
Scope = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        "-s",
        help=f"Permission of the token, repeated for each: {', '.join(SCOPES)}.",
        autocompletion=lambda incomplete: [name for name in SCOPES if name.startswith(incomplete)],
        show_default=False,
    ),
]


@app.command("list")
def list_tokens(context: typer.Context, as_json: AsJson = False) -> None:
    """List your tokens. Their text is stored nowhere and cannot be shown."""
    found = list(get_client(context).tokens.list())
    if as_json:
        show_json(found)
        return
    rows = [
        (
            one.id,
            one.name,
            "active" if one.is_active else "off",
            ",".join(one.scopes),
            format_age(one.last_used_at),
            one.last_used_ip or "",
            format_instant(one.expires_at) or NEVER,
        )
        for one in found
    ]
    show_table(("id", "name", "state", "scopes", "used", "from", "expires"), rows, empty="None.")


@app.command("create")
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Purpose.", show_default=False)],
    scope: Scope = None,
    expires: Annotated[
        str,
        typer.Option("--expires", help="30d, 12h, or never; in 90 days if not given.", show_default=False),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Create a token and print its text, only this once. It cannot have more scopes than the token
    that you use now.
    """
    wanted: dict[str, Any] = {"name": name}
    if scope:
        wanted["scopes"] = scope
    if expires:
        wanted["expires_at"] = _expiry(expires)
    _show_once(get_client(context).tokens.create(**wanted), as_json=as_json)


@app.command("edit")
def edit(
    context: typer.Context,
    token: TokenName,
    name: Annotated[str, typer.Option("--name", help="New name.")] = "",
    scope: Scope = None,
    as_json: AsJson = False,
) -> None:
    """Change the name or the scopes of a token."""
    changes: dict[str, Any] = {**({"name": name} if name else {}), **({"scopes": scope} if scope else {})}
    if not changes:
        raise InvalidInput("Nothing to change was given.", hint="--name NAME or --scope SCOPE")
    _change(context, token, as_json=as_json, **changes)


@app.command("on")
def switch_on(context: typer.Context, token: TokenName, as_json: AsJson = False) -> None:
    """Enable a token that was disabled."""
    _change(context, token, as_json=as_json, is_active=True)


@app.command("off")
def switch_off(context: typer.Context, token: TokenName, as_json: AsJson = False) -> None:
    """Disable a token until it is enabled again."""
    _change(context, token, as_json=as_json, is_active=False)


@app.command("rotate")
def rotate(
    context: typer.Context,
    token: TokenName,
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="HOURS", help="Time for which the old text stays valid; at most 24."),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Replace the text of a token and print it, only this once. Name, scopes and expiry stay."""
    tokens = get_client(context).tokens
    _show_once(tokens.rotate(tokens.find(token).id, grace_hours=grace), as_json=as_json)


@app.command("delete")
def delete(context: typer.Context, token: TokenName, confirm: Confirm = "") -> None:
    """Delete a token; programs that use it are refused at once."""
    tokens = get_client(context).tokens
    found = tokens.find(token)
    require_typed_name(found.name, confirm)
    tokens.delete(found.id)


def _change(context: typer.Context, token: str, *, as_json: bool, **changes: Any) -> None:
    tokens = get_client(context).tokens
    changed = tokens.change(tokens.find(token).id, **changes)
    if as_json:
        show_json(changed)


def _show_once(made: KeyPair, *, as_json: bool) -> None:
    if as_json:
        show_json(made)
        return
    say(made.token)
    note("Copy it now: it is shown this once.")


def _expiry(text: str) -> str | None:
    """Convert `--expires` to the API's field. Raises InvalidInput."""
    if text == NEVER:
        return None
    unit = {"h": "hours", "d": "days"}.get(text[-1:])
    if unit is None or not text[:-1].isdecimal():
        raise InvalidInput(f"“{text[:20]}” is no time.", hint="Write it like 30d, 12h or never.")
    try:
        return (datetime.now(UTC) + timedelta(**{unit: int(text[:-1])})).isoformat()
    except OverflowError as error:
        raise InvalidInput(f"“{text[:20]}” is too long a time.", hint="Use never.") from error
