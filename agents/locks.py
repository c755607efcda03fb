"""Row locks of resource groups."""

from django.utils.translation import gettext as _

from accounts.admission_gate import precede_admissions
from accounts.selectors import require_superadmin
from agents.models import ResourceGroup
from agents.selectors import access_group
from common.actors import Actor
from common.errors import NotFound


def lock_group_to_change(actor: Actor, group_id: int) -> ResourceGroup:
    """Lock and return the group for a superadmin. Until the transaction ends nothing else changes
    it, and no session or agent joins it. Raises NotFound, PermissionDenied.
    """
    access_group(actor, group_id)
    require_superadmin(actor)
    precede_admissions()
    ResourceGroup.objects.select_for_update().filter(pk=group_id).first()
    return access_group(actor, group_id)


def lock_group(group: ResourceGroup) -> ResourceGroup:
    """Lock the group against deletion until the transaction ends. Raises NotFound."""
    locked = ResourceGroup.objects.select_for_update(no_key=True).present().filter(pk=group.pk).first()
    if locked is None:
        raise NotFound(_("The resource group “{name}” was deleted.").format(name=group.name))
    return locked
