"""Writes of administrators' own accelerator vendors; superadmins only. Machines are looked at by
the new description at their next look.
"""

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin
from agents.accelerators.device_files import DeviceFileVendor, describe_vendor, vendor_mistakes
from agents.models import VendorFile
from agents.vendors.selectors import access_vendor_file
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict, InvalidInput
from common.values.text import quoted


@transaction.atomic
def create_vendor_file(*, actor: Actor, form: DeviceFileVendor) -> VendorFile:
    """Add an own vendor. Raises PermissionDenied, InvalidInput, Conflict (the name is in use)."""
    require_superadmin(actor)
    _check_form(form)

    row = VendorFile(name=form.name, form=form.to_json(), created_by_id=actor.user_id)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(_("There is a vendor {name} already.").format(name=quoted(form.name))) from error
    audit_log.record(actor=actor, action="agents.create_vendor_file", target=row, changes=form.to_json())
    return row


@transaction.atomic
def change_vendor_file(*, actor: Actor, vendor_id: int, changes: Mapping[str, Any]) -> VendorFile:
    """Change these values of an own vendor, but not its name. Raises PermissionDenied, NotFound,
    InvalidInput.
    """
    access_vendor_file(actor, vendor_id)
    row = VendorFile.objects.select_for_update().get(pk=vendor_id)
    before = DeviceFileVendor.from_json(row.form)
    form = DeviceFileVendor.from_json({**row.form, **changes, "name": row.name})
    _check_form(form)
    changed = audit_log.changed(before.to_json(), form.to_json())

    if changed:
        row.form, row.updated_at = form.to_json(), clock.now()
        row.save(update_fields=["form", "updated_at"])
        audit_log.record(actor=actor, action="agents.change_vendor_file", target=row, changes=changed)
    return row


@transaction.atomic
def delete_vendor_file(*, actor: Actor, vendor_id: int) -> None:
    """Delete an own vendor. Sessions keep the devices that they have; nobody gets them any more.
    Raises PermissionDenied, NotFound.
    """
    row = access_vendor_file(actor, vendor_id)
    audit_log.record(actor=actor, action="agents.delete_vendor_file", target=row, changes=row.form)
    row.delete()


def _check_form(form: DeviceFileVendor) -> None:
    """Raise InvalidInput with the sentences of each field."""
    mistakes = vendor_mistakes(form)
    if mistakes:
        raise InvalidInput(next(iter(mistakes.values()))[0], fields=mistakes)
    describe_vendor(form)
