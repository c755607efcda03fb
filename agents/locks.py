"""Row locks for changes of resource groups."""

from accounts.admission_gate import precede_admissions
from accounts.selectors import require_superadmin
from agents.models import ResourceGroup
from agents.selectors import access_group
from common.actors import Actor


def hold_to_change(actor: Actor, group_id: int) -> ResourceGroup:
    """Lock and return the group for a superadmin. Until the transaction ends nothing else changes
    it, and no session or agent joins it. Raises NotFound, PermissionDenied.
    """
    access_group(actor, group_id)
    require_superadmin(actor)
    precede_admissions()
    ResourceGroup.objects.select_for_update().filter(pk=group_id).first()
    return access_group(actor, group_id)
