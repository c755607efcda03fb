"""Reads of keypairs: one's own, and those of people whose accounts one may change."""

from datetime import datetime
from functools import cache

from django.db.models import Case, Q, QuerySet, When
from django.db.models.functions import Least
from django.utils.translation import gettext as _

from accounts.authority import Action
from accounts.models import Domain, KeyPair, User
from accounts.selectors import access_user
from common import clock
from common.actors import Actor
from common.db.prepared import columns_of, instance_of, parameter, prepared_cursor, said
from common.errors import NotFound, PermissionDenied
from common.token_scopes import Scopes, in_order, may


def visible_keypairs(actor: Actor) -> QuerySet[KeyPair]:
    """The actor's own keypairs; nobody sees another's."""
    return KeyPair.objects.filter(user_id=actor.user_id or 0)


def access_keypair(actor: Actor, keypair_id: int) -> KeyPair:
    keypair = visible_keypairs(actor).filter(pk=keypair_id).first()
    if keypair is None:
        raise NotFound(_("There is no such token among yours."))
    return keypair


def keypairs_of(actor: Actor, user_id: int) -> QuerySet[KeyPair]:
    """Of a person whose account the actor may change; their secrets are nowhere. Raises NotFound, PermissionDenied."""
    return KeyPair.objects.filter(user=access_user(actor, user_id, Action.EDIT))


def access_keypair_of(actor: Actor, user_id: int, keypair_id: int) -> KeyPair:
    keypair = keypairs_of(actor, user_id).filter(pk=keypair_id).first()
    if keypair is None:
        raise NotFound(_("There is no such token of this person."))
    return keypair


def demand_scopes(keypair: KeyPair, sufficient: Scopes) -> None:
    """The token has one of these. Raises PermissionDenied."""
    if not may(keypair.scopes, sufficient):
        raise PermissionDenied(
            _("This token may not do this: its scopes are {scopes}.").format(
                scopes=", ".join(keypair.scopes)
            ),
            hint=_("One of these would do: {scopes}. Scopes are set on your page of keys.").format(
                scopes=", ".join(in_order(sufficient))
            )
            if sufficient
            else _("No token may; sign in with a browser."),
            code="scope_missing",
        )


def usable_keypair(access_key: str, at: datetime | None = None) -> KeyPair | None:
    """The keypair with this access key if it, its user and its domain are active and it has not expired; with the least of the
    rates that policies allow it, and the least of those that superadmins wrote. One query."""
    with prepared_cursor() as cursor:
        cursor.execute(_usable_statement(), {"key": access_key, "at": at or clock.now()})
        row = cursor.fetchone()
    if row is None:
        return None
    its, persons = len(columns_of(KeyPair)), len(columns_of(User))
    keypair, user = instance_of(KeyPair, row[:its]), instance_of(User, row[its : its + persons])
    domain = instance_of(Domain, row[its + persons : -2])
    # By inner joins.
    assert keypair is not None
    assert user is not None
    assert domain is not None
    keypair.user, user.domain = user, domain
    keypair.policy_rate, keypair.central_rate = row[-2:]
    return keypair


@cache
def _usable_statement() -> str:
    policies = [f"{scope}policy" for scope in ("", "user__", "user__domain__")]
    rates = [f"{policy}__max_requests" for policy in policies]
    central = [
        Case(When(**{f"{policy}__domain": None}, then=rate))
        for policy, rate in zip(policies, rates, strict=True)
    ]
    usable = KeyPair.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=parameter("at", "timestamptz")),
        access_key=parameter("key", "text"),
        is_active=True,
        user__is_active=True,
        user__domain__is_active=True,
    )
    columns = [
        *columns_of(KeyPair),
        *(f"user__{name}" for name in columns_of(User)),
        *(f"user__domain__{name}" for name in columns_of(Domain)),
    ]
    rated = usable.annotate(least_rate=Least(*rates), least_central_rate=Least(*central))
    return said(rated, [*columns, "least_rate", "least_central_rate"])
