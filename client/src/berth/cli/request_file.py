"""Command `create`: create a session from a YAML or JSON file."""

from contextlib import suppress
from typing import Annotated, Any

import typer

from berth.cli.context import AsJson, get_client
from berth.cli.launch_options import choose_project, parse_environment, parse_instant
from berth.cli.sessions import show_started
from berth.cli.yaml_files import read_object
from berth.errors import InvalidInput
from berth.sessions import generated_name


def create(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Option(
            "--file", "-f", metavar="FILE", help="YAML or JSON; - is standard input.", show_default=False
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Create a session from a file, and print its id.

    The file has the fields of POST /api/v1/sessions/. Variables are kept as written; a variable
    without a value is copied from the local environment. A time without a zone is local time. If
    the file has no name, one is generated; if it has no project, your only project is used.
    """
    body = read_request(file)
    client = get_client(context)
    body["project"] = choose_project(client, str(body.get("project") or ""))
    body["name"] = body.get("name") or generated_name(str(body.get("image", "")))
    show_started(client.sessions.create(body), as_json=as_json)


def read_request(file: str) -> dict[str, Any]:
    """Read the request fields from a file. Raises InvalidInput."""
    body = read_object(file)
    variables = body.get("environment")
    if isinstance(variables, dict):
        missing = [str(name) for name, value in variables.items() if value is None]
        body["environment"] = variables | parse_environment(missing)
    if isinstance(start_at := body.get("start_at"), str):
        with suppress(InvalidInput):  # the portal reports the error
            body["start_at"] = parse_instant(start_at)
    return body
