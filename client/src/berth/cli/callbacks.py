"""Commands `callback`: list deliveries to the user's URL, and create the signing secret."""

import typer

from berth.amounts import format_age
from berth.cli.context import AsJson, get_client
from berth.cli.output import note, say, show_json, show_table
from berth.cli.sessions import AnySession

app = typer.Typer(no_args_is_help=True, help="Callbacks of sessions to a URL: berth run --callback URL.")


@app.command("list")
def list_deliveries(context: typer.Context, session: AnySession, as_json: AsJson = False) -> None:
    """List the callback deliveries of a session."""
    client = get_client(context)
    found = list(client.callbacks.list(client.sessions.find(session).id))
    if as_json:
        show_json(found)
        return
    rows = [
        (one.event, one.state, one.answer or one.fault, one.attempts, format_age(one.tried_at))
        for one in found
    ]
    show_table(("event", "state", "answer", "attempts", "last tried"), rows, empty="Nothing was told yet.")


@app.command("new-secret")
def new_secret(context: typer.Context, as_json: AsJson = False) -> None:
    """Create a new signing secret for all your callbacks. It cannot be shown again."""
    made = get_client(context).callbacks.new_secret()
    if as_json:
        show_json(made)
        return
    say(made.secret)
    note("Keep it where callbacks arrive; it cannot be shown again.")
