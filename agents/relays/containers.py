"""Containers of relays and tunnels on remote machines, and checks of the relays from this side.

Each remote machine has one relay. Where its port does not answer, the machine has a tunnel too: a
helper in which the gateway starts one process for each connection, through the engine.
"""

import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_noop

from agents.connections.authority import issue_server, own_client, trusted_authorities
from agents.connections.certificates import Issued
from agents.core.relay_names import LAST_OF_CONTAINERS, SESSION_PREFIX, relay_domain
from agents.core.states import AgentState
from agents.machines.helper_containers import NO_IMAGE, helper_image, helper_labels
from agents.machines.lifecycle import push_agent_change
from agents.models import Agent, AgentRelay, Realm, RelayRoute
from agents.runtime.addresses import SIMULATED
from agents.runtime.port import HELPER_FILES_AT, ContainerRuntime, HelperSpec, RuntimeFault, RuntimeRefused
from agents.selectors import runtime_of
from common import clock
from common.resilience.keyed_pool import KeyedPool
from common.values.encryption import Undecipherable, decrypt, encrypt

log = structlog.get_logger(__name__)

ROLE, TUNNEL_ROLE = "relay", "tunnel"
LOCAL = "unix://"
ROUND_S = 60
MAX_CONNECTIONS = 4096
MEM_BYTES = 512 * 2**20
"""A connection needs 100 KB at most: two buffers and the state of TLS."""

TUNNEL_PIDS = 1024
CHECK_S = 3.0
ATTEMPTS = 3
ERROR_LENGTH = 300
RETIRED_FOR = timedelta(days=1)
"""Time in which the containers of a retired machine are removed, as soon as it answers."""

PURPOSE = "keys of relays"
RENEWED_BEFORE = timedelta(days=30)

UNREACHED = gettext_noop(
    "Port {port} of {host} does not answer the portal ({error}). Open it in the machine's firewall for the"
    " portal's machines. Until then apps go through the engine, slower."
)

_pool = KeyedPool[None]("relays", settings.BERTH_POOL_THREADS["relays"])


def relay_name() -> str:
    """Return the name of a relay's container; each installation has its own."""
    return f"berth-relay-{settings.BERTH_INSTALLATION}"


def tunnel_name() -> str:
    return f"berth-tunnel-{settings.BERTH_INSTALLATION}"


def is_remote(agent: Agent) -> bool:
    """Return True if the gateway does not reach the containers of the machine by their addresses."""
    return not agent.address.startswith((LOCAL, SIMULATED))


def reconcile_relays(image_ids: Sequence[str]) -> None:
    """Have the relays of all remote machines as they should be, and check them."""
    remote = Agent.objects.exclude(address__startswith=LOCAL).exclude(address__startswith=SIMULATED)
    retired_since = clock.now() - RETIRED_FOR
    work: dict[int, Callable[[], None]] = {}
    for agent in remote.filter(last_error=""):
        if agent.state != AgentState.RETIRED:
            work[agent.pk] = partial(_reconcile, agent, image_ids)
        elif agent.state_changed_at >= retired_since:
            work[agent.pk] = partial(_remove, agent)
    _pool.run(work, timeout_s=ROUND_S)


def _reconcile(agent: Agent, image_ids: Sequence[str]) -> None:
    try:
        reconcile_relay(agent, image_ids)
    except RuntimeFault as fault:
        log.warning("relay.failed", agent=agent.name, error=str(fault))


def _remove(agent: Agent) -> None:
    try:
        remove_relay(agent)
    except RuntimeFault as fault:
        log.warning("relay.not_removed", agent=agent.name, error=str(fault))


def reconcile_relay(agent: Agent, image_ids: Sequence[str]) -> AgentRelay:
    """Have the relay of one machine as it should be, check it, and return what was recorded. Raises
    RuntimeFault.
    """
    runtime, host, port = runtime_of(agent), relay_host(agent), settings.BERTH_RELAY_PORT
    image_id = helper_image(runtime, image_ids)
    if image_id is None:
        raise RuntimeRefused(f"{NO_IMAGE}.")
    own = certificate_of(agent)
    trusted = trusted_authorities(Realm.RELAY)
    runtime.ensure_helper(relay_spec(image_id, agent.pk, (host, port), own, trusted))
    tls = client_context(own.authority, own_client(Realm.RELAY))
    error = check_relay((host, port), tls, f"check.{relay_domain(agent.pk)}")
    if error:
        runtime.ensure_helper(tunnel_spec(image_id))
    else:
        _remove_unused_tunnel(runtime)
    return record_relay(agent.pk, (host, port), error)


def remove_relay(agent: Agent) -> None:
    """Remove relay and tunnel of a machine. Raises RuntimeFault."""
    runtime = runtime_of(agent)
    for role in (ROLE, TUNNEL_ROLE):
        for state in runtime.list_containers(helper_labels(role)):
            runtime.remove_container(state.name)
    AgentRelay.objects.filter(agent=agent).delete()


def relay_host(agent: Agent) -> str:
    """Return the host of the machine's engine, where its relay listens too."""
    return urlsplit(agent.address).hostname or ""


def relay_spec(
    image_id: str, agent_id: int, address: tuple[str, int], own: Issued, trusted: str
) -> HelperSpec:
    """Return the relay of a machine, which listens at `address` with the certificate `own` and lets in
    clients of the authorities `trusted`. Another version of any part is another spec.
    """
    hosts = 2 ** (32 - SESSION_PREFIX) - 1
    values = {
        "MAXCONN": MAX_CONNECTIONS,
        "DOMAIN": relay_domain(agent_id).replace(".", r"\."),
        "POOL": settings.BERTH_SESSION_POOL,
        "HOSTMASK": hosts,
        "CLUSTERS": settings.BERTH_CLUSTER_POOL,
        "LAST": LAST_OF_CONTAINERS,
    }
    config = _text("relay.cfg")
    for name, value in values.items():
        config = config.replace(f"@{name}@", str(value))
    return HelperSpec(
        name=relay_name(),
        image=image_id,
        labels=helper_labels(ROLE),
        command=("sh", f"{HELPER_FILES_AT}/relay.sh", address[0], str(address[1])),
        files={
            "relay.sh": _text("relay.sh").encode(),
            "relay.cfg": config.encode(),
            "relay.pem": (own.certificate + own.key).encode(),
            "authority.pem": trusted.encode(),
        },
        has_network=True,
        is_restarted=True,
        mem_bytes=MEM_BYTES,
    )


def tunnel_spec(image_id: str) -> HelperSpec:
    """Return the helper in which the gateway's tunnels run (`agents.relays.tunnel`)."""
    return HelperSpec(
        name=tunnel_name(),
        image=image_id,
        labels=helper_labels(TUNNEL_ROLE),
        command=("sleep", "infinity"),
        has_network=True,
        is_restarted=True,
        mem_bytes=MEM_BYTES,
        pids_limit=TUNNEL_PIDS,
    )


@transaction.atomic
def certificate_of(agent: Agent) -> Issued:
    """Return the certificate of the agent's relay; issue one if there is none, if it ends soon, or if its
    key cannot be read.
    """
    Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
    row = AgentRelay.objects.filter(pk=agent.pk).first()
    if row is not None and row.ends_at - clock.now() > RENEWED_BEFORE:
        with suppress(Undecipherable):
            return Issued(row.authority, row.certificate, decrypt(PURPOSE, row.key), row.ends_at)
    made = issue_server([f"*.{relay_domain(agent.pk)}"])
    AgentRelay.objects.update_or_create(
        agent=agent,
        defaults={
            "authority": made.authority,
            "certificate": made.certificate,
            "key": encrypt(PURPOSE, made.key),
            "ends_at": made.ends_at,
        },
    )
    return made


def client_context(authority: str, client: Issued) -> ssl.SSLContext:
    """Return a context that trusts this authority alone, checks names, and shows the client's certificate."""
    context = ssl.create_default_context(cadata=authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with NamedTemporaryFile(mode="w", suffix=".pem") as file:  # ssl reads files only; this one has mode 0600
        file.write(client.certificate + client.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def check_relay(address: tuple[str, int], tls: ssl.SSLContext, name: str) -> str:
    """Return why the gateway cannot use the relay, or "". Tries for some seconds, because the container
    may have started just now.
    """
    error = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(1)
        try:
            with (
                socket.create_connection(address, CHECK_S) as plain,
                tls.wrap_socket(plain, server_hostname=name) as relay,
            ):
                # In TLS 1.3 a server refuses the client's certificate after the handshake. One that accepts it
                # ends the connection, since the name of a check is none of a container.
                with suppress(ConnectionResetError):
                    relay.recv(1)
                return ""
        except TimeoutError:
            return f"no answer within {CHECK_S:g} s"
        except (OSError, ssl.SSLError) as problem:
            error = getattr(problem, "strerror", None) or str(problem)
    return error


@transaction.atomic
def record_relay(agent_id: int, address: tuple[str, int], error: str) -> AgentRelay:
    """Record a check of the machine's relay."""
    row = AgentRelay.objects.select_for_update().select_related("agent").get(pk=agent_id)
    before = (row.checked_at is None, row.route, row.error)
    row.host, row.port = address
    row.route = RelayRoute.TUNNEL if error else RelayRoute.RELAY
    row.error, row.checked_at = error[:ERROR_LENGTH], clock.now()
    row.save(update_fields=["host", "port", "route", "error", "checked_at"])
    if before != (False, row.route, row.error):
        log.info("relay.checked", agent_id=agent_id, agent=row.agent.name, route=row.route, error=error)
        push_agent_change(row.agent)
    return row


def _remove_unused_tunnel(runtime: ContainerRuntime) -> None:
    """Remove the tunnel once no connection goes through it any more."""
    for state in runtime.list_containers(helper_labels(TUNNEL_ROLE)):
        if state.status != "running" or len(runtime.process_ids(state.name)) <= 1:
            runtime.remove_container(state.name)


@cache
def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text()
