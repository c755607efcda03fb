"""Access checks of the administration pages; for other users these pages do not exist (404)."""

from django.http import HttpRequest
from django.utils.translation import gettext as _

from accounts.selectors import governs_people, looks_after_others, sees_everything
from common.actors import Actor
from common.errors import NotFound
from common.rest.actor import actor_of


def administrator(request: HttpRequest) -> Actor:
    """Return the actor if it administers or monitors anything. Raises NotFound. At most one
    query.
    """
    actor = actor_of(request)
    if not governs_people(request.user) and not looks_after_others(actor):  # type: ignore[arg-type]
        raise nothing_here()
    return actor


def overseer_of_all(request: HttpRequest) -> Actor:
    """Return the actor if it is a superadmin or monitor. Raises NotFound."""
    actor = actor_of(request)
    if not sees_everything(actor):
        raise nothing_here()
    return actor


def nothing_here() -> NotFound:
    return NotFound(_("There is nothing at this address, or it is not yours to see."))
