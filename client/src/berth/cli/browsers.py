"""Commands `browser`: list and sign out the browsers in which the user is signed in."""

from typing import Annotated

import typer

from berth.amounts import format_age
from berth.cli.context import AsJson, get_client
from berth.cli.output import note, show_json, show_table
from berth.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="Browsers in which you are signed in to the portal.")


@app.command("list")
def list_browsers(context: typer.Context, as_json: AsJson = False) -> None:
    """List the browsers in which you are signed in, most recently used first."""
    found = list(get_client(context).browsers.list())
    if as_json:
        show_json(found)
        return
    rows = [
        (one.id, one.device or "unknown", one.ip, format_age(one.signed_in_at), format_age(one.seen_at))
        for one in found
    ]
    show_table(("id", "device", "from", "signed in", "seen"), rows, empty="None.")


@app.command("revoke")
def revoke(
    context: typer.Context,
    browser: Annotated[str, typer.Argument(help="Id of the browser.", show_default=False)] = "",
    everywhere: Annotated[bool, typer.Option("--all", help="Sign out all browsers.")] = False,
) -> None:
    """Sign out a browser; its open connections end within seconds. Tokens stay valid."""
    if bool(browser) == everywhere:
        raise InvalidInput("Say which browser.", hint="berth browser revoke ID, or --all")
    browsers = get_client(context).browsers
    if not everywhere:
        browsers.end(browser)
        return
    note(f"Signed out: {browsers.end_all()}.")
