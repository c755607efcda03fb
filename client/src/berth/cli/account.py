"""Commands `login`, `logout`, `whoami` and `profile`: sign in and manage saved profiles."""

import getpass
import os
import sys
from typing import Annotated

import typer

from berth.addresses import is_private_way, portal_url
from berth.amounts import format_instant
from berth.cli.context import AsJson, get_client
from berth.cli.output import note, say, show_facts, show_json, show_table
from berth.client import Client
from berth.errors import BerthError, InvalidInput, NotFound, Unreachable
from berth.profiles import (
    DEFAULT_PROFILE,
    Profile,
    ProfileFile,
    check_profile_name,
    profile_path,
    read_profiles,
    write_profiles,
)

app = typer.Typer(no_args_is_help=True, help="Profiles: portals that you are signed in to.")


def login(
    context: typer.Context,
    url: Annotated[
        str, typer.Argument(help="Address of the portal.", envvar="BERTH_URL", show_default=False)
    ] = "",
    ca_file: Annotated[
        str, typer.Option(help="PEM file of the authority that signed the portal's certificate.")
    ] = "",
) -> None:
    """Sign in with a token from Settings → Keys, and save it for later commands.

    The token is read from a hidden prompt, from standard input or from BERTH_TOKEN. It is never an
    argument, because other users of this computer can see arguments.
    """
    saved = read_profiles()
    name = check_profile_name(str(context.find_root().params.get("profile") or "") or DEFAULT_PROFILE)
    url = url or (saved.profiles[name].url if name in saved.profiles else "") or _ask_url()
    url = portal_url(url)
    if not is_private_way(url):
        note(f"Warning: {url} is not encrypted; everybody on the way can read your token. Use https.")
    profile = Profile(name, url, _read_token(url), os.path.abspath(ca_file) if ca_file else "")
    with Client(profile.url, profile.token, ca_file=profile.ca_file) as client:
        person = client.whoami()
    path = write_profiles(saved.with_profile(profile))
    note(f"Signed in to {url} as {person.email} ({person.role}); the token is in {path}.")


def logout(
    context: typer.Context,
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke the token on the portal too.")] = False,
    everywhere: Annotated[bool, typer.Option("--all", help="Sign out of all profiles.")] = False,
) -> None:
    """Delete the saved token of a profile from this computer."""
    saved = read_profiles()
    named = str(context.find_root().params.get("profile") or "") or saved.current
    names = list(saved.profiles) if everywhere else [named]
    for name in names:
        if name not in saved.profiles:
            raise NotFound(f"There is no profile “{name}”.", hint="Which there are: berth profile ls.")
        if revoke:
            _revoke(saved.profiles[name])
        saved = saved.without_profile(name)
    write_profiles(saved)
    note(f"Signed out: {', '.join(names) or 'nobody was signed in'}.")


def whoami(context: typer.Context, as_json: AsJson = False) -> None:
    """Show your account on this portal."""
    client = get_client(context)
    person = client.whoami()
    if as_json:
        show_json(person)
        return
    show_facts(
        {
            "e-mail": person.email,
            "name": person.name,
            "role": person.role,
            "domain": person.domain.name,
            "scopes": ", ".join(person.token.scopes) if person.token else "",
            "token ends": format_instant(person.token.expires_at) if person.token else "",
            "portal": client.url,
        }
    )


@app.command("ls")
def list_profiles(as_json: AsJson = False) -> None:
    """List the profiles on this computer, without their tokens."""
    saved = read_profiles()
    rows = [(profile.name, profile.url, profile.name == saved.current) for profile in saved.profiles.values()]
    if as_json:
        show_json([{"name": name, "url": url, "is_current": current} for name, url, current in rows])
        return
    cells = [(name, url, "current" if current else "") for name, url, current in rows]
    show_table(("name", "portal", "state"), cells, empty=f"None yet: berth login URL. ({profile_path()})")


@app.command("use")
def use_profile(name: Annotated[str, typer.Argument(help="Name of a profile.")]) -> None:
    """Make this profile the default one."""
    saved = read_profiles()
    if name not in saved.profiles:
        raise NotFound(f"There is no profile “{name}”.", hint="Which there are: berth profile ls.")
    write_profiles(ProfileFile(name, saved.profiles))


@app.command("path")
def show_path() -> None:
    """Print the path of the profile file."""
    say(str(profile_path()))


def _ask_url() -> str:
    if not sys.stdin.isatty():
        raise InvalidInput("Say which portal.", hint="berth login https://berth.example.com")
    return str(typer.prompt("Portal", err=True))


def _read_token(url: str) -> str:
    token = os.environ.get("BERTH_TOKEN", "")
    if not token and sys.stdin.isatty():
        note(f"A token is made on {url}/profile/tokens/.")
        token = getpass.getpass("Token: ")
    elif not token:
        token = sys.stdin.readline(4096)
    token = token.strip()
    if not token:
        raise InvalidInput("No token was given.", hint="Type it, pipe it in, or set BERTH_TOKEN.")
    return token


def _revoke(profile: Profile) -> None:
    """Revoke the token of a profile. Reports a refusal: an unknown token is as good as revoked."""
    try:
        with Client(profile.url, profile.token, ca_file=profile.ca_file) as client:
            if own := client.whoami().token:
                client.tokens.delete(own.id)
    except Unreachable:
        raise
    except BerthError as error:
        note(f"The token of “{profile.name}” could not be revoked: {error.message}")
