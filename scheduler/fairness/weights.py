"""Set fair-share weights of domains, projects and users in a resource group (superadmins only)."""

from decimal import Decimal
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin
from agents.events import CapacityChanged
from agents.grantee import Grantee, grantee_level, grantee_name
from agents.locks import lock_group
from agents.selectors import access_group
from common.actors import Actor
from common.audit import audit_log
from common.errors import InvalidInput
from common.messaging.events import publish
from scheduler.models import LEAST_WEIGHT, MOST_WEIGHT, ShareWeight
from scheduler.run_state import discard_plans

DEFAULT_WEIGHT = Decimal(1)


@transaction.atomic
def set_share_weight(*, actor: Actor, group_id: int, holder: Grantee, weight: Decimal) -> Decimal:
    """Set the weight of `holder` in the group; the default is 1. Discards plans made with the old
    weight. Raises NotFound, PermissionDenied, InvalidInput.
    """
    group = access_group(actor, group_id)
    require_superadmin(actor)
    weight = _checked(weight)

    lock_group(group)
    whose: dict[str, Any] = {"group": group, grantee_level(holder): holder}
    present = ShareWeight.objects.filter(**whose).first()
    before = present.weight if present else DEFAULT_WEIGHT
    if before == weight:
        return weight

    if weight == DEFAULT_WEIGHT:
        ShareWeight.objects.filter(**whose).delete()
    else:
        ShareWeight.objects.update_or_create(**whose, defaults={"weight": weight})
    discard_plans([group.pk])
    changes = {
        grantee_level(holder): grantee_name(holder),
        "weight": [format_weight(before), format_weight(weight)],
    }
    audit_log.record(actor=actor, action="scheduler.set_share_weight", target=group, changes=changes)
    publish(CapacityChanged(group.pk))
    return weight


def format_weight(weight: Decimal | float) -> str:
    """Format a weight without trailing zeros: 3.000 → "3", 0.500 → "0.5"."""
    return f"{Decimal(str(weight)).normalize():f}"


def _checked(weight: Decimal) -> Decimal:
    try:
        value: Decimal = ShareWeight._meta.get_field("weight").clean(weight, None)
    except ValidationError:
        sentence = _("A weight is a number from {least} to {most} with at most three decimal places.").format(
            least=LEAST_WEIGHT, most=MOST_WEIGHT
        )
        raise InvalidInput(sentence, fields={"weight": [sentence]}) from None
    return value
