"""Machines whose certificates Berth issues: invited, fetched once, admitted when the engine answers."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import structlog
from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin
from agents.connections import authority
from agents.connections.join_script import render_script
from agents.connections.probe import check_engine
from agents.machines.addresses import check_address, host_of
from agents.machines.observation import Observation, observe
from agents.machines.service import UNUSABLE, register_agent
from agents.models import Agent, ConnectionKind, MachineInvitation, Realm, ResourceGroup, credentials_of
from agents.models.connection import KEYS
from agents.runtime.addresses import TCP
from agents.runtime.endpoints import endpoint_of
from agents.runtime.port import RuntimeFault
from agents.runtime.registry import runtime_for
from agents.selectors import access_agent, access_resource_group
from common import clock
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.db.validation import validate_model
from common.errors import BerthError, Conflict, InvalidInput, NotFound
from common.resilience.keyed_pool import KeyedPool
from common.values.encryption import decrypt, encrypt

log = structlog.get_logger(__name__)

TOKEN_LIFETIME = timedelta(hours=1)
TRIED_FOR = timedelta(days=2)
TRIED_AT_ONCE = 16
ROUND_S = 30
ERROR_LENGTH = 500
_pool = KeyedPool[Observation | str]("admission", TRIED_AT_ONCE)


@transaction.atomic
def invite_machine(
    *,
    actor: Actor,
    name: str,
    address: str,
    resource_group: ResourceGroup | None = None,
    more_names: Sequence[str] = (),
    is_confirmed: bool = False,
) -> tuple[MachineInvitation, str]:
    """Issue a certificate for a machine that is to be added; return the invitation and the token with
    which it fetches the certificate, once, within an hour. The machine is added when its engine
    answers. Raises InvalidInput, Conflict.
    """
    require_superadmin(actor)
    check_address(address, is_confirmed=is_confirmed)
    if not address.startswith(TCP):
        raise InvalidInput.at("address", _("Certificates are issued for engines at tcp://host:port."))
    if Agent.objects.in_use().filter(name=name).exists():
        sentence = _("There is an agent “{name}” already. Issue its certificate again on its page.")
        raise Conflict(sentence.format(name=name))
    invitation = MachineInvitation(
        name=name, address=address, resource_group=resource_group or access_resource_group(actor)
    )
    MachineInvitation.objects.filter(name=name).delete()
    return _issue(actor, invitation, (host_of(address), *more_names), trusted="")


@transaction.atomic
def issue_again(
    *, actor: Actor, agent_id: int, is_compromised: bool = False
) -> tuple[MachineInvitation, str]:
    """Issue a new certificate for a machine that has one of Berth's. Until the machine uses it, the
    old one is trusted too, unless `is_compromised`. Raises Conflict, NotFound.
    """
    require_superadmin(actor)
    access_agent(actor, agent_id)
    agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
    if agent.connection.get("kind") != ConnectionKind.ISSUED:
        raise Conflict(_("The certificate of “{name}” was not issued by Berth.").format(name=agent.name))
    open_ones = MachineInvitation.objects.filter(agent=agent)
    is_unused = open_ones.filter(fetched_at=None).exists()
    MachineInvitation.objects.filter(name=agent.name).delete()
    invitation = MachineInvitation(
        name=agent.name, agent=agent, address=agent.address, resource_group=agent.resource_group
    )
    newest, _empty, before = agent.connection["ca"].partition("\n\n")
    used = before if is_unused else newest  # what was never fetched, no machine has
    trusted = "" if is_compromised else used
    issued = _issue(actor, invitation, agent.connection["names"], trusted=trusted)
    agent.connection = invitation.connection
    agent.save(update_fields=["connection"])
    return issued


def _issue(
    actor: Actor, invitation: MachineInvitation, names: Sequence[str], *, trusted: str
) -> tuple[MachineInvitation, str]:
    try:
        server = authority.issue_server(names)
    except ValueError as error:
        raise InvalidInput.at("more_names", str(error)) from error
    signer = authority.current_authority(Realm.ENGINE)
    token = secrets.token_urlsafe(32)
    # The newest first, then an empty line, which PEM ignores and `issue_again` cuts at.
    invitation.connection = {
        "kind": ConnectionKind.ISSUED,
        "ca": f"{server.authority.strip()}\n\n{trusted}",
        "names": list(names),
        "ends_at": server.ends_at.isoformat(),
        **authority.client_values(signer.pk),
    }
    invitation.certificate = server.certificate
    invitation.key = encrypt(KEYS, server.key)
    invitation.token_hash = _hash(token)
    invitation.token_ends_at = clock.now() + TOKEN_LIFETIME
    validate_model(invitation)
    invitation.save()
    audit_log.record(
        actor=actor,
        action="agents.issue_certificate",
        target=invitation.agent,
        changes={"name": invitation.name, "address": invitation.address, "names": list(names)},
    )
    return invitation, token


@transaction.atomic
def fetch_script(token: str) -> str:
    """Return the script that sets a machine up, once for each token. Raises NotFound."""
    invitation = MachineInvitation.objects.select_for_update().filter(token_hash=_hash(token)).first()
    if invitation is None or not invitation.is_open_at(clock.now()):
        raise NotFound(
            _("This link was used already, or has expired."), hint=_("Issue the certificate again.")
        )
    script = render_script(
        invitation.name,
        invitation.address,
        authority.trusted_authorities(Realm.ENGINE),
        invitation.certificate,
        decrypt(KEYS, invitation.key),
    )
    invitation.key = invitation.token_hash = ""
    invitation.fetched_at = clock.now()
    invitation.save(update_fields=["key", "token_hash", "fetched_at"])
    log.info("connections.certificate_fetched", machine=invitation.name)
    return script


def cancel_invitation(*, actor: Actor, invitation_id: int) -> None:
    """Withdraw the certificate of a machine that has not become an agent. Raises NotFound."""
    require_superadmin(actor)
    with transaction.atomic():
        found = MachineInvitation.objects.select_for_update().filter(pk=invitation_id, agent=None).first()
        if found is None:
            raise NotFound(_("There is no such invitation."))
        name = found.name
        found.delete()
        audit_log.record(actor=actor, action="agents.cancel_invitation", changes={"name": name})


def script_url(token: str) -> str:
    """Return the address at which the machine fetches its script."""
    return f"{settings.BERTH_URL.rstrip('/')}/join/{token}/"


def admit_machines() -> None:
    """Add the invited machines whose engines answer; note for the others what is wrong."""
    now = clock.now()
    ended = MachineInvitation.objects.filter(token_ends_at__lt=now)
    ended.exclude(agent=None).exclude(fetched_at=None).delete()
    # Of keys that nobody can fetch any more, none is kept; the row tells `issue_again` that no machine has one.
    ended.exclude(token_hash="").update(key="", token_hash="")
    waiting = MachineInvitation.objects.filter(agent=None, created_at__gt=now - TRIED_FOR)
    rows = {each.pk: each for each in waiting.select_related("resource_group")}
    work = {pk: partial(_look_at, each) for pk, each in rows.items()}
    for pk, seen in _pool.results(work, timeout_s=ROUND_S):
        if isinstance(seen, Observation):
            _admit(rows[pk], seen)
        else:
            _note(pk, seen)


def _look_at(invitation: MachineInvitation) -> Observation | str:
    """Return what the engine tells, or why it cannot be used yet. Calls no database."""
    credentials = credentials_of(invitation.connection)
    try:
        check_engine(endpoint_of(invitation.address, credentials))
        return observe(runtime_for(invitation.address, credentials))
    except BerthError as error:
        return error.message
    except RuntimeFault as fault:
        return str(fault)


def _admit(invitation: MachineInvitation, seen: Observation) -> None:
    try:
        with transaction.atomic():
            register_agent(
                actor=SYSTEM,
                name=invitation.name,
                address=invitation.address,
                connection=invitation.connection,
                resource_group=invitation.resource_group,
                seen=seen,
            )
            # It may have been withdrawn while the engine was asked.
            if not MachineInvitation.objects.filter(pk=invitation.pk).delete()[0]:
                raise NotFound(_("There is no such invitation."))
    except BerthError as error:
        _note(invitation.pk, error.message)
    except UNUSABLE as error:
        _note(invitation.pk, f"Its engine answers like no engine: {error}")


def _note(invitation_id: int, error: str) -> None:
    note = error.replace("\0", "")[:ERROR_LENGTH]  # no row may have a NUL
    MachineInvitation.objects.filter(pk=invitation_id).update(last_error=note)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
