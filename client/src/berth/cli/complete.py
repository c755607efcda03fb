"""Shell completion of names. Offers nothing if the portal does not answer within two seconds."""

from collections.abc import Callable, Iterator
from itertools import chain, islice

import typer

from berth.client import Client
from berth.errors import BerthError
from berth.models import LIVE_STATUSES

PATIENCE_S = 2.0
SHOWN = 100

Offer = tuple[str, str]


def sessions(context: typer.Context, incomplete: str) -> list[Offer]:
    return _offers(context, incomplete, lambda client: _session_names(client, live=True))


def sessions_and_arrays(context: typer.Context, incomplete: str) -> list[Offer]:
    return _offers(
        context, incomplete, lambda client: chain(_array_names(client), _session_names(client, live=True))
    )


def ended_sessions_too(context: typer.Context, incomplete: str) -> list[Offer]:
    return _offers(context, incomplete, lambda client: _session_names(client, live=False))


def folders(context: typer.Context, incomplete: str) -> list[Offer]:
    return _offers(
        context, incomplete, lambda client: ((one.name, one.project or "") for one in client.folders.list())
    )


def images(context: typer.Context, incomplete: str) -> list[Offer]:
    return _offers(
        context, incomplete, lambda client: ((one.reference, one.title) for one in client.images())
    )


def projects(context: typer.Context, incomplete: str) -> list[Offer]:
    return _offers(context, incomplete, lambda client: ((one.name, one.title) for one in client.projects()))


def resource_groups(context: typer.Context, incomplete: str) -> list[Offer]:
    return _offers(context, incomplete, lambda client: ((one.name, "") for one in client.resource_groups()))


def presets(context: typer.Context, incomplete: str) -> list[Offer]:
    return _offers(context, incomplete, lambda client: ((one.name, "") for one in client.presets.list()))


def tokens(context: typer.Context, incomplete: str) -> list[Offer]:
    return _offers(
        context, incomplete, lambda client: ((one.name, one.access_key) for one in client.keypairs())
    )


def places(context: typer.Context, incomplete: str) -> list[Offer]:
    """Return `NAME:` of sessions and folders.

    Returns nothing once a path begins, so that the shell offers local files.
    """
    if ":" in incomplete or "/" in incomplete:
        return []
    return [
        (f"{name}:", why) for name, why in (*sessions(context, incomplete), *folders(context, incomplete))
    ]


def _session_names(client: Client, *, live: bool) -> Iterator[Offer]:
    return ((one.name, f"{one.status.lower()}, {one.image}") for one in client.sessions.list(live=live))


def _array_names(client: Client) -> Iterator[Offer]:
    """Yield the names of the newest arrays that have live elements."""
    newest = islice(client.arrays.list(), SHOWN)
    live = (one for one in newest if not one.statuses.keys().isdisjoint(LIVE_STATUSES))
    return ((one.name, f"array of {one.count}") for one in live)


def _offers(context: typer.Context, incomplete: str, ask: Callable[[Client], Iterator[Offer]]) -> list[Offer]:
    profile = context.find_root().params.get("profile") or ""
    offers: list[Offer] = []
    try:
        with Client(profile=str(profile), timeout_s=PATIENCE_S) as client:
            for name, why in ask(client):
                if name.startswith(incomplete) and name.isprintable():
                    offers.append((name, why if why.isprintable() else ""))
                if len(offers) == SHOWN:
                    break
    except BerthError:
        return []
    return offers
