"""What cannot be undone is typed."""

import sys
from typing import Annotated

import typer

from berth.errors import InvalidInput

Confirm = Annotated[
    str,
    typer.Option(
        "--confirm", metavar="NAME", help="The name, typed again; asked for if not given.", show_default=False
    ),
]


def demand_typed(name: str, given: str) -> None:
    """Raises InvalidInput unless `name` was given or is typed now."""
    if not given and sys.stdin.isatty():
        given = str(typer.prompt(f"This cannot be undone. Type {name} to go on", err=True))
    if given.strip() != name:
        raise InvalidInput(
            f"“{name}” was not typed, so nothing was done.", hint=f"For scripts: --confirm {name}"
        )
