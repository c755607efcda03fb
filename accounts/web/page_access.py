"""Access checks of the administration pages; for other users these pages do not exist (404)."""

from django.http import HttpRequest
from django.utils.translation import gettext as _

from accounts.selectors import oversees_others, oversees_people, sees_everything
from common.actors import Actor
from common.errors import NotFound
from common.rest.actor import actor_of


def require_administrator(request: HttpRequest) -> Actor:
    """Return the actor if it administers or monitors anything. Raises NotFound. At most one query."""
    actor = actor_of(request)
    if not oversees_people(request.user) and not oversees_others(actor):  # type: ignore[arg-type]
        raise page_not_found()
    return actor


def require_global_overseer(request: HttpRequest) -> Actor:
    """Return the actor if it is a superadmin or monitor. Raises NotFound."""
    actor = actor_of(request)
    if not sees_everything(actor):
        raise page_not_found()
    return actor


def page_not_found() -> NotFound:
    return NotFound(_("There is nothing at this address, or it is not yours to see."))
