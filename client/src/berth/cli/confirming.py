"""Confirm irreversible actions by typing the object's name."""

import sys
from typing import Annotated

import typer

from berth.errors import InvalidInput

Confirm = Annotated[
    str,
    typer.Option(
        "--confirm",
        metavar="NAME",
        help="Repeat the name to confirm; asked for if not given.",
        show_default=False,
    ),
]


def require_typed_name(name: str, given: str) -> None:
    """Raise InvalidInput unless `given` is `name`, or the user types it at the prompt."""
    if not given and sys.stdin.isatty():
        given = str(typer.prompt(f"This cannot be undone. Type {name} to go on", err=True))
    if given.strip() != name:
        raise InvalidInput(
            f"“{name}” was not typed, so nothing was done.", hint=f"For scripts: --confirm {name}"
        )
