"""Who finds the pages on which others are administered; for everybody else there are no such pages."""

from django.http import HttpRequest
from django.utils.translation import gettext as _

from accounts.selectors import governs_people, looks_after_others, sees_everything
from common.actors import Actor
from common.errors import NotFound
from common.rest.actor import actor_of


def administrator(request: HttpRequest) -> Actor:
    """Whoever looks after others, or watches. Raises NotFound. At most one query."""
    actor = actor_of(request)
    if not governs_people(request.user) and not looks_after_others(actor):  # type: ignore[arg-type]
        raise nothing_here()
    return actor


def overseer_of_all(request: HttpRequest) -> Actor:
    """Superadmins and monitors. Raises NotFound."""
    actor = actor_of(request)
    if not sees_everything(actor):
        raise nothing_here()
    return actor


def nothing_here() -> NotFound:
    return NotFound(_("There is nothing at this address, or it is not yours to see."))
