"""Required actions (allowed network, password change, second factor), checked per request and for
open connections.
"""

from collections.abc import Collection, Mapping

from allauth.mfa.models import Authenticator
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _

from accounts.core.sign_in_requirements import Demand, is_allowed_from, needs_second_factor
from accounts.models import User
from common.errors import BerthError, PermissionDenied

# (user, IP address, true for programs)
Caller = tuple[User, str, bool]

SECOND_FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)


def demand_on(user: User, *, ip: str, is_program: bool = False) -> Demand | None:
    """Return the required action of one caller, or None. `user` must carry its domain. One query,
    only if the domain requires a second factor.
    """
    return demands_on({(user, ip, is_program)}).get((user, ip, is_program))


def demands_on(callers: Collection[Caller]) -> Mapping[Caller, Demand]:
    """Return the required action of each caller that has one. At most one query for any number of
    callers.

    Programs have no second factor: tokens keep working if it is required later, or removed. A
    password that must be changed may be known to others, so tokens wait for that as well.
    """
    asked = {
        user.pk for user, _ip, is_program in callers if not is_program and is_asked_for_second_factor(user)
    }
    protected = with_second_factor(asked) if asked else set()
    found = {caller: demand_of(caller, has_second_factor=caller[0].pk in protected) for caller in callers}
    return {caller: demand for caller, demand in found.items() if demand is not None}


def demand_of(caller: Caller, *, has_second_factor: bool) -> Demand | None:
    """Return the required action of one caller, or None. No query."""
    user, ip, is_program = caller
    if not is_allowed_from(ip, user.allowed_networks):
        return Demand.ADDRESS
    if user.must_change_password:
        return Demand.PASSWORD
    is_asked = not is_program and is_asked_for_second_factor(user)
    return Demand.SECOND_FACTOR if is_asked and not has_second_factor else None


def with_second_factor(user_ids: Collection[int]) -> set[int]:
    """Return the ids of those users who have a second factor. One query."""
    return set(_second_factors().filter(user_id__in=user_ids).values_list("user_id", flat=True))


def has_second_factor(user: str) -> Exists:
    """Query expression that is true for rows whose field `user` refers to a user with a second
    factor.
    """
    return Exists(_second_factors().filter(user_id=OuterRef(user)))


def _second_factors() -> QuerySet[Authenticator]:
    rows: QuerySet[Authenticator] = Authenticator.objects.filter(type__in=SECOND_FACTORS)
    return rows


def refusal_for(demand: Demand, ip: str) -> BerthError:
    """Return the error that describes a required action."""
    if demand is Demand.ADDRESS:
        return PermissionDenied(
            _("Your account may not be used from {address}.").format(address=ip or "—"),
            hint=_("Ask an administrator of your domain which networks are allowed."),
            code="address_not_allowed",
        )
    if demand is Demand.PASSWORD:
        return PermissionDenied(
            _("Your password has to be changed before anything else."),
            hint=_("Sign in to the portal and choose a new one."),
            code="password_change_required",
        )
    return PermissionDenied(
        _("Your domain asks for a second factor, and your account has none yet."),
        hint=_("Sign in to the portal and set one up."),
        code="second_factor_required",
    )


def is_asked_for_second_factor(user: User) -> bool:
    """Return true if the user's domain requires a second factor. `user` must carry its domain. No
    query.
    """
    return needs_second_factor(user.domain.second_factor, user.role)
