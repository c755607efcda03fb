"""Command `api`: call any endpoint of the REST API."""

from typing import Annotated

import typer

from berth.cli.context import get_client
from berth.cli.input_files import STDIN, json_in, read_text
from berth.cli.launch_options import parse_pair
from berth.cli.output import is_terminal, show_json, write_bytes
from berth.errors import InvalidInput
from berth.transport import parse_json

MOST_BYTES = 16 * 2**20
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
    """Call the REST API and print its answer. The portal documents its endpoints at /api/"""
    method = method.upper()
    if method not in METHODS:
        raise InvalidInput(f"“{method[:20]}” is no method.", hint=f"Use one of {', '.join(METHODS)}.")
    answer = get_client(context).call(
        method,
        _below_api(path),
        params=dict(parse_pair(text, "--param", "page=2") for text in parameter or ()),
        json=_body(data) if data else None,
    )
    if "json" in answer.headers.get("Content-Type", "") and is_terminal():
        show_json(parse_json(answer))
    elif answer.content:
        write_bytes(answer.content)


def _below_api(path: str) -> str:
    plain = path.removeprefix("/").removeprefix("api/v1/")
    if "://" in plain or ".." in plain.split("?")[0].split("/"):
        raise InvalidInput(f"“{path[:80]}” is not a path of the API.", hint="Write it like sessions/")
    return plain


def _body(data: str) -> object:
    if data == STDIN or data.startswith("@"):
        file = data.removeprefix("@")
        return json_in(read_text(file, most_bytes=MOST_BYTES), file)
    return json_in(data, "--data", hint="""Write it like --data '{"name": "data"}'.""")
