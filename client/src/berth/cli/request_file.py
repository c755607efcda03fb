"""`create`: a session as a file describes it."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from berth.cli.context import AsJson, client_of
from berth.cli.launch_options import environment_of, project_of
from berth.cli.sessions import show_started
from berth.errors import InvalidInput
from berth.sessions import made_name

EXAMPLE = "name, project, image, resources, …, like the body of POST /api/v1/sessions/"


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
    """Ask for a session that a file describes, and print its id.

    The file has the fields of POST /api/v1/sessions/. A variable without a value is taken from here; a name is made, and
    your only project used, where the file has none.
    """
    body = read_request(file)
    client = client_of(context)
    body["project"] = project_of(client, str(body.get("project") or ""))
    body["name"] = body.get("name") or made_name(str(body.get("image", "")))
    show_started(client.sessions.create(body), as_json=as_json)


def read_request(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        body = yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as exc:
        raise InvalidInput(f"{file}: cannot be read as YAML: {str(exc)[:300]}") from exc
    if not isinstance(body, dict) or not all(isinstance(name, str) for name in body):
        raise InvalidInput(f"{file}: is no object of fields.", hint=f"It has {EXAMPLE}.")
    variables = body.get("environment")
    if isinstance(variables, dict):
        missing = [str(name) for name, value in variables.items() if value is None]
        body["environment"] = variables | environment_of(missing)
    return body
