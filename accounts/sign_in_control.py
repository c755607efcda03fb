"""What administrators may say about how somebody signs in."""

from collections.abc import Collection

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.authority import Action
from accounts.models import User
from accounts.selectors import access_user, require_superadmin
from accounts.services import lock_people
from accounts.sign_in_rules import is_allowed_from, parse_networks
from common import audit
from common.actors import Actor
from common.errors import Conflict, InvalidInput


@transaction.atomic
def control_sign_in(
    *,
    actor: Actor,
    user_id: int,
    must_change_password: bool | None = None,
    allowed_networks: Collection[str] | None = None,
) -> User:
    """Whether the person has to choose another password before anything else, and the networks from which the account may be
    used (none: all); None leaves it. Holds for what is open within seconds. Raises NotFound, PermissionDenied, InvalidInput,
    and Conflict for networks that would shut the actor out."""
    lock_people(actor, user_id)
    user = access_user(actor, user_id, Action.EDIT)
    before = {"must_change_password": user.must_change_password, "allowed_networks": user.allowed_networks}
    if must_change_password and not user.has_usable_password():
        raise Conflict(
            _("{name} has no password here to change.").format(name=user.email),
            hint=_("Close the account instead."),
        )
    if must_change_password is not None:
        user.must_change_password = must_change_password
    if allowed_networks is not None:
        user.allowed_networks = _networks(allowed_networks)
    if user.pk == actor.user_id and before["allowed_networks"] not in ([], user.allowed_networks):
        require_superadmin(actor)  # nobody lifts bounds that others set on them
    if user.pk == actor.user_id and not is_allowed_from(actor.ip, user.allowed_networks):
        raise Conflict(
            _(
                "You are at {address}, which is in none of these networks: you would shut yourself out."
            ).format(address=actor.ip or "—"),
            hint=_("Add a network with your address."),
        )

    user.save(update_fields=["must_change_password", "allowed_networks"])
    after = {"must_change_password": user.must_change_password, "allowed_networks": user.allowed_networks}
    audit.record(
        actor=actor,
        action="accounts.control_sign_in",
        target=user,
        changes=audit.changed(_told(before), _told(after)),
    )
    return user


def _networks(lines: Collection[str]) -> list[str]:
    try:
        return parse_networks(lines)
    except ValueError as error:
        raise InvalidInput(str(error), fields={"allowed_networks": [str(error)]}) from error


def _told(facts: dict[str, object]) -> dict[str, object]:
    """For the access log, which keeps nothing that is named like a secret."""
    return {"must_change": facts["must_change_password"], "networks": facts["allowed_networks"]}
