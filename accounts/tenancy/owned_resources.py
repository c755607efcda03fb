"""Resources of users, projects and domains in other apps, read through
`ports.offboarding_handlers`.
"""

from django.utils.translation import gettext as _

from accounts.models import Domain, Project, User
from accounts.ports import OffboardingHandler, OwnedItem, offboarding_handlers

SHOWN = 5
Owner = User | Project | Domain


def owned_items(user: User) -> list[tuple[OffboardingHandler, OwnedItem]]:
    """Return the resources of a user that must be resolved, each with its handler."""
    return [(handler, item) for handler in offboarding_handlers.get() for item in handler.items(user)]


def item_label(handler_name: str, item_name: str) -> str:
    """Return the name of an item in the reader's language."""
    labels = {handler.NAME: handler.LABEL for handler in offboarding_handlers.get()}
    return _(labels[handler_name]).format(name=item_name) if handler_name in labels else item_name


def blocking_resources(user: User) -> str:
    """Return the resources that block moving or purging the user, joined by commas; "" if none."""
    names = [item_label(handler.NAME, item.name) for handler, item in owned_items(user)]
    names += [
        _("membership in “{project}”").format(project=name)
        for name in user.projects.values_list("name", flat=True)
    ]
    return ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")


def objections_to_closing(owner: Project | Domain) -> list[str]:
    handlers = offboarding_handlers.get()
    return [sentence for handler in handlers if (sentence := handler.objection(owner))]


def retention_reasons(owner: Owner) -> list[str]:
    handlers = offboarding_handlers.get()
    return [sentence for handler in handlers if (sentence := handler.history(owner))]
