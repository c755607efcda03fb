"""Routes of the gateway to the containers of an agent."""

import time
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import NamedTuple

from django.conf import settings

from agents.connections.authority import own_client
from agents.core.relay_names import is_session_address, server_name
from agents.models import Agent, AgentRelay, Realm, RelayRoute
from agents.relays.containers import client_context, is_remote, tunnel_name
from agents.relays.tunnel import TunnelRoute
from agents.runtime.port import Credentials
from agents.runtime.registry import async_runtime_for
from transport.proxy import DIRECT, Route, TlsRelayRoute

FRESH_S = 60.0
"""Seconds after which a route is made anew if its certificates have been renewed."""


class _Key(NamedTuple):
    """Everything by which two routes to one agent differ."""

    engine: tuple[str, Credentials | None]
    route: str
    host: str
    port: int
    authority: str


class _Kept(NamedTuple):
    key: _Key
    route: Route
    certificate: str
    checked_at: float


_lock = Lock()
_routes: dict[int, _Kept] = {}


def route_to(agent: Agent, address: str) -> Route | None:
    """Return the way to a container of the agent at `address`, the same object as long as it does not
    change; None while a remote machine has none yet, or if the address is not one of a session.

    No query if the agent was loaded with its `relay`, except for one in FRESH_S for a relay's
    certificates. Thread-safe.
    """
    if not is_remote(agent):
        return DIRECT
    relay: AgentRelay | None = getattr(agent, "relay", None)
    if (
        relay is None
        or relay.checked_at is None
        or not is_session_address(address, settings.BERTH_SESSION_POOL, settings.BERTH_CLUSTER_POOL)
    ):
        return None
    key = _Key((agent.address, agent.credentials), relay.route, relay.host, relay.port, relay.authority)
    with _lock:
        kept = _routes.get(agent.pk)
        if kept is not None and kept.key != key:
            kept = None
        if kept is not None and time.monotonic() - kept.checked_at < FRESH_S:
            return kept.route
    made = _make(agent, key, kept)
    with _lock:
        _routes[agent.pk] = made
    return made.route


def _make(agent: Agent, key: _Key, kept: _Kept | None) -> _Kept:
    if key.route == RelayRoute.TUNNEL:
        if kept is not None:
            return kept._replace(checked_at=time.monotonic())
        runtime = partial(async_runtime_for, *key.engine)
        return _Kept(key, TunnelRoute(runtime, tunnel_name()), "", time.monotonic())
    own = own_client(Realm.RELAY)
    if kept is not None and kept.certificate == own.certificate:
        return kept._replace(checked_at=time.monotonic())
    name_of: Callable[[str, int], str] = partial(server_name, agent.pk)
    route = TlsRelayRoute((key.host, key.port), client_context(key.authority, own), name_of)
    return _Kept(key, route, own.certificate, time.monotonic())
