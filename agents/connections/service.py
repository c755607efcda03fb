"""Writes of connections: machines are added, certificates issued again, renewed and revoked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin
from agents.connections import authority
from agents.connections.pasted import PastedCertificates, check_certificates
from agents.connections.probe import check_engine
from agents.connections.ssh_keys import own_ssh_key
from agents.core.states import AgentState
from agents.machines import lifecycle
from agents.machines.addresses import check_address, is_network
from agents.machines.service import register_agent
from agents.models import Agent, ConnectionKind, Realm, ResourceGroup, credentials_of
from agents.models.connection import KEYS
from agents.runtime import ssh_tunnels
from agents.runtime.addresses import SSH, TCP
from agents.runtime.endpoints import endpoint_of, remove_old_files, write_ssh_files
from agents.runtime.port import SshMaterial, TlsMaterial
from agents.selectors import access_agent
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import InvalidInput, Unavailable
from common.values.encryption import encrypt

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NewAgent:
    """Machine to be added. `is_plain_text` and `is_confirmed` together allow an engine without
    certificates; `is_confirmed` alone, an address of this machine. `host_key`, if given, must be that
    of the machine.
    """

    name: str
    address: str
    resource_group: ResourceGroup | None = None
    certificates: PastedCertificates | None = None
    host_key: str = ""
    is_plain_text: bool = False
    is_confirmed: bool = False
    more_names: Sequence[str] = field(default=())


def add_agent(*, actor: Actor, new: NewAgent) -> Agent:
    """Add a machine whose engine answers now, or look at a known one again at a new address.
    Raises InvalidInput, Unavailable, Conflict.
    """
    require_superadmin(actor)
    check_address(new.address, is_confirmed=new.is_confirmed)
    connection = _connection(new)
    if is_network(new.address):
        check_engine(endpoint_of(new.address, credentials_of(connection)))
    return register_agent(
        actor=actor,
        name=new.name,
        address=new.address,
        connection=connection,
        resource_group=new.resource_group,
    )


def _connection(new: NewAgent) -> dict[str, Any]:
    """Return the value of `Agent.connection`; calls the machine for its SSH host key."""
    if new.address.startswith(SSH):
        return _ssh_connection(new)
    if not new.address.startswith(TCP):
        return {}
    if new.certificates is not None:
        check_certificates(new.certificates, clock.now())
        return certificates_connection(new.certificates)
    if new.is_plain_text and new.is_confirmed:
        return {"kind": ConnectionKind.PLAIN}
    if new.is_plain_text:
        sentence = _("Without certificates, whoever reaches {address} owns the machine and all that runs there. Confirm that you want this, or let Berth issue certificates.")  # fmt: skip
        raise InvalidInput.at("is_confirmed", sentence.format(address=new.address))
    sentence = _(
        "An engine on the network is reached with certificates. Paste them, or let Berth issue them."
    )
    raise InvalidInput.at("certificate", sentence)


def certificates_connection(pasted: PastedCertificates) -> dict[str, Any]:
    """Return the value of `Agent.connection` for certificates that were checked."""
    return {
        "kind": ConnectionKind.CERTIFICATES,
        "ca": pasted.ca,
        "certificate": pasted.certificate,
        "key": encrypt(KEYS, pasted.key),
    }


def _ssh_connection(new: NewAgent) -> dict[str, Any]:
    try:
        shown = ssh_tunnels.run(ssh_tunnels.host_key_of(new.address))
    except ssh_tunnels.SshFailed as error:
        raise Unavailable(error.shown()) from error
    if new.host_key and new.host_key.split()[:2] != shown.split()[:2]:
        sentence = _("{address} shows another host key: {key}. Check whether this is the machine you mean.")
        raise InvalidInput.at("host_key", sentence.format(address=new.address, key=shown))
    return {"kind": ConnectionKind.SSH, "host_key": shown, "key": own_ssh_key().key}


@transaction.atomic
def revoke_connection(*, actor: Actor, agent_id: int) -> Agent:
    """Retire a machine and forget all by which Berth reached it; what it holds is worth nothing from
    then on. Raises Conflict, NotFound, PermissionDenied.
    """
    require_superadmin(actor)
    agent = lifecycle.transition(access_agent(actor, agent_id).pk, to=AgentState.RETIRED, actor=actor)
    kind = agent.connection.get("kind", "")
    agent.connection = {}
    agent.save(update_fields=["connection"])
    audit_log.record(actor=actor, action="agents.revoke_connection", target=agent, changes={"kind": kind})
    return agent


def renew_client_certificates() -> None:
    """Renew Berth's client certificates that end soon, and give them to the machines that know their
    authority. Repeats itself for machines that an interrupted run left out.
    """
    for each in authority.renew_clients():
        log.info("connections.client_renewed", authority=each.pk, ends_at=each.client_ends_at)
    for each in authority.living_authorities(Realm.ENGINE):
        stale = Agent.objects.filter(connection__kind=ConnectionKind.ISSUED, connection__authority=each.pk)
        for agent_id in stale.exclude(connection__certificate=each.client_certificate).values_list(
            "pk", flat=True
        ):
            _give_client(agent_id, each.pk)


def remove_old_connection_files() -> None:
    """Remove the files of certificates and keys that no machine has any more from this data directory."""
    kept = set[Path]()
    for agent in Agent.objects.exclude(connection={}).only("connection").iterator():
        credentials = credentials_of(agent.connection)
        if isinstance(credentials, TlsMaterial):
            kept.add(Path(credentials.ca_file).parent)
        elif isinstance(credentials, SshMaterial):
            kept.add(Path(write_ssh_files(credentials.host_key, credentials.key)))
    remove_old_files(kept)


@transaction.atomic
def _give_client(agent_id: int, authority_id: int) -> None:
    agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
    if agent.connection.get("authority") == authority_id:
        agent.connection |= authority.client_values(authority_id)
        agent.save(update_fields=["connection"])


def agent_named_or_none(actor: Actor, name: str) -> Agent | None:
    """Return the agent in use with this name, for superadmins."""
    require_superadmin(actor)
    return Agent.objects.in_use().filter(name=name).first()
