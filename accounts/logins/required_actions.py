"""Required actions (allowed network, password change, second factor), checked per request and for
open connections.
"""

from collections.abc import Collection, Mapping

from allauth.mfa.models import Authenticator
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _

from accounts.core.sign_in_requirements import RequiredAction, is_allowed_from, needs_second_factor
from accounts.models import User
from common.errors import BerthError, PermissionDenied

# (user, IP address, true for programs)
Caller = tuple[User, str, bool]

SECOND_FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)


def find_required_action(user: User, *, ip: str, is_program: bool = False) -> RequiredAction | None:
    """Return the required action of one caller, or None. `user` must carry its domain. One query,
    only if the domain requires a second factor.
    """
    return find_required_actions({(user, ip, is_program)}).get((user, ip, is_program))


def find_required_actions(callers: Collection[Caller]) -> Mapping[Caller, RequiredAction]:
    """Return the required action of each caller that has one. At most one query for any number of
    callers.

    Programs have no second factor: tokens keep working if it is required later, or removed. A
    password that must be changed may be known to others, so tokens wait for that as well.
    """
    asked_user_ids = {
        user.pk for user, _ip, is_program in callers if not is_program and must_have_second_factor(user)
    }
    protected = users_with_second_factor(asked_user_ids) if asked_user_ids else set()
    found = {
        caller: required_action(caller, has_second_factor=caller[0].pk in protected) for caller in callers
    }
    return {caller: action for caller, action in found.items() if action is not None}


def required_action(caller: Caller, *, has_second_factor: bool) -> RequiredAction | None:
    """Return the required action of one caller, or None. No query."""
    user, ip, is_program = caller
    if not is_allowed_from(ip, user.allowed_networks):
        return RequiredAction.ADDRESS
    if user.must_change_password:
        return RequiredAction.PASSWORD
    is_asked = not is_program and must_have_second_factor(user)
    return RequiredAction.SECOND_FACTOR if is_asked and not has_second_factor else None


def users_with_second_factor(user_ids: Collection[int]) -> set[int]:
    """Return the ids of those users who have a second factor. One query."""
    return set(_second_factors().filter(user_id__in=user_ids).values_list("user_id", flat=True))


def has_second_factor(user: str) -> Exists:
    """Query expression: the user of the row's field `user` has a second factor."""
    return Exists(_second_factors().filter(user_id=OuterRef(user)))


def _second_factors() -> QuerySet[Authenticator]:
    rows: QuerySet[Authenticator] = Authenticator.objects.filter(type__in=SECOND_FACTORS)
    return rows


def required_action_error(action: RequiredAction, ip: str) -> BerthError:
    """Return the error that describes a required action."""
    if action is RequiredAction.ADDRESS:
        return PermissionDenied(
            _("Your account may not be used from {address}.").format(address=ip or "—"),
            hint=_("Ask an administrator of your domain which networks are allowed."),
            code="address_not_allowed",
        )
    if action is RequiredAction.PASSWORD:
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


def must_have_second_factor(user: User) -> bool:
    """Return true if the domain of `user`, which must be loaded, requires a second factor."""
    return needs_second_factor(user.domain.second_factor, user.role)
