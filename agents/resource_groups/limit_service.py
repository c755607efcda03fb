"""Writes of single limits of a resource group; superadmins only."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from agents.locks import hold_to_change
from agents.models import ResourceGroup
from agents.resource_groups.service import update_resource_group
from common.actors import Actor
from common.errors import InvalidInput, NotFound
from common.values.text import quoted


@transaction.atomic
def put_limit(
    *, actor: Actor, group_id: int, limit: Mapping[str, Any], instead_of: str = ""
) -> ResourceGroup:
    """Add a limit to the group, or replace the limit named `instead_of`. Keys as in
    `agents.core.group_limits`. Raises NotFound, PermissionDenied, InvalidInput.
    """
    group = hold_to_change(actor, group_id)
    kept = list(group.limits)
    place = _place_of(group, instead_of) if instead_of else len(kept)
    kept[place : place + 1] = [dict(limit)]
    name = str(limit.get("name", "")).strip()
    if any(each["name"] == name for number, each in enumerate(kept) if number != place):
        sentence = _("Another limit of this group has this name.")
        raise InvalidInput(sentence, fields={"name": [sentence]})

    return update_resource_group(actor=actor, group_id=group_id, changes={"limits": kept})


@transaction.atomic
def remove_limit(*, actor: Actor, group_id: int, name: str) -> ResourceGroup:
    """Remove a limit from the group. Raises NotFound, PermissionDenied."""
    group = hold_to_change(actor, group_id)
    kept = list(group.limits)
    del kept[_place_of(group, name)]

    return update_resource_group(actor=actor, group_id=group_id, changes={"limits": kept})


def limit_named(group: ResourceGroup, name: str) -> dict[str, Any]:
    """Return the stored limit of this name. Raises NotFound."""
    limit: dict[str, Any] = group.limits[_place_of(group, name)]
    return limit


def _place_of(group: ResourceGroup, name: str) -> int:
    """Return the position of the limit. Raises NotFound."""
    for place, each in enumerate(group.limits):
        if each["name"] == name:
            return place
    raise NotFound(_("“{group}” has no limit {name}.").format(group=group.name, name=quoted(name)))
