"""`api`: any call, for what has no command of its own."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from berth.cli.context import client_of
from berth.cli.launch_options import pair_of
from berth.cli.output import is_terminal, show_json, write_bytes
from berth.errors import InvalidInput

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def api(
    context: typer.Context,
    method: Annotated[str, typer.Argument(help="GET, POST, PUT, PATCH or DELETE.", show_default=False)],
    path: Annotated[str, typer.Argument(help="Below /api/v1/, like sessions/", show_default=False)],
    data: Annotated[
        str, typer.Option("--data", "-d", help="JSON to send; @FILE reads a file, - standard input.")
    ] = "",
    parameter: Annotated[
        list[str] | None, typer.Option("--param", help="NAME=VALUE for the query; may be repeated.")
    ] = None,
) -> None:
    """Call the REST API and print its answer. What there is: /api/ on the portal."""
    method = method.upper()
    if method not in METHODS:
        raise InvalidInput(f"“{method[:20]}” is no method.", hint=f"Use one of {', '.join(METHODS)}.")
    answer = client_of(context).call(
        method,
        _below_api(path),
        params=dict(pair_of(text, "--param", "page=2") for text in parameter or ()),
        json=_body(data) if data else None,
    )
    if "json" in answer.headers.get("Content-Type", "") and is_terminal():
        show_json(answer.json())
    elif answer.content:
        write_bytes(answer.content)


def _below_api(path: str) -> str:
    plain = path.removeprefix("/").removeprefix("api/v1/")
    if "://" in plain or ".." in plain.split("?")[0].split("/"):
        raise InvalidInput(f"“{path[:80]}” is not a path of the API.", hint="Write it like sessions/")
    return plain


def _body(data: str) -> object:
    try:
        text = data
        if data == "-":
            text = sys.stdin.read()
        elif data.startswith("@"):
            text = Path(data[1:]).read_text(encoding="utf-8")
        return json.loads(text)
    except (OSError, ValueError) as exc:
        raise InvalidInput(
            f"--data is no JSON: {exc}.", hint="""Write it like --data '{"name": "data"}'."""
        ) from exc
