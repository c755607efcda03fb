"""Options shared by all commands, and the client of the current invocation."""

from typing import Annotated, Any

import typer

from berth.cli import complete
from berth.client import Client

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON as the REST API gives it.")]
SessionName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="Name, id, or the beginning of an id.",
        autocompletion=complete.sessions,
        show_default=False,
    ),
]
FolderName = Annotated[
    str,
    typer.Argument(metavar="FOLDER", help="Name or id.", autocompletion=complete.folders, show_default=False),
]
Kernel = Annotated[str, typer.Option("--kernel", help="Which container of the session.")]


def client_of(context: typer.Context) -> Client:
    """Return the client of this invocation; all requests of a command share it."""
    root = context.find_root()
    state: dict[str, Any] = root.ensure_object(dict)
    if "client" not in state:
        client = Client(profile=state.get("profile", ""))
        state["client"] = client
        root.call_on_close(client.close)
    found: Client = state["client"]
    return found
