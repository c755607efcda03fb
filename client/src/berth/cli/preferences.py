"""Commands `preferences`: show and change the user's language and notifications."""

from typing import Annotated, Any

import typer

from berth.cli.context import AsJson, get_client
from berth.cli.output import show_facts, show_json
from berth.errors import InvalidInput
from berth.personal import Preferences

app = typer.Typer(no_args_is_help=True, help="Your language and notifications.")

NOBODY_SAYS = "as the browser asks"
KINDS = "finished failed ended ends_soon tokens budgets safety"


@app.command("show")
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Show your preferences."""
    _show(get_client(context).preferences.get(), as_json=as_json)


@app.command("set")
def set_preferences(
    context: typer.Context,
    language: Annotated[
        str | None, typer.Option("--language", help="en, ko, ja; empty: as the browser asks.")
    ] = None,
    mail: Annotated[
        str | None,
        typer.Option("--mail", metavar="KINDS", help=f"Kinds also sent by e-mail, comma-separated: {KINDS}."),
    ] = None,
    mute: Annotated[
        str | None,
        typer.Option(
            "--mute",
            metavar="KINDS",
            help="Kinds that are not shown at all, comma-separated; safety cannot be muted.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change your preferences. Other options stay; an empty list, like --mail "", clears one."""
    wanted = {"language": language, "mailed_notifications": _kinds(mail), "muted_notifications": _kinds(mute)}
    changes: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    if not changes:
        raise InvalidInput("Nothing to change.", hint="--language, --mail or --mute")
    _show(get_client(context).preferences.change(**changes), as_json=as_json)


def _kinds(typed: str | None) -> list[str] | None:
    return None if typed is None else [kind.strip() for kind in typed.split(",") if kind.strip()]


def _show(found: Preferences, *, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    show_facts(
        {
            "language": found.language or NOBODY_SAYS,
            "mailed": ", ".join(found.mailed_notifications) or "nothing",
            "no mail": found.no_mail_because,
            "muted": ", ".join(found.muted_notifications) or "nothing",
        }
    )
