"""Options shared by all commands, and the client of the current invocation."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
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
Kernel = Annotated[
    str, typer.Option("--container", "--kernel", help="Container of the session: main1, sub1…")
]


def get_client(context: typer.Context) -> Client:
    """Return the client of this invocation; all requests of a command share it."""
    root = context.find_root()
    state: dict[str, Any] = root.ensure_object(dict)
    if "client" not in state:
        client = Client(profile=state.get("profile", ""))
        state["client"] = client
        root.call_on_close(client.close)
    found: Client = state["client"]
    return found


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command that shares options with another one: replace each parameter whose type is
    a dataclass by options for its fields.
    """
    own = inspect.signature(command).parameters.values()
    groups: dict[str, Any] = {one.name: one.annotation for one in own if is_dataclass(one.annotation)}
    expanded = [
        option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for one in own
        for option in (inspect.signature(one.annotation).parameters.values() if one.name in groups else [one])
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    run.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in expanded}
    return run
