"""Reads of the accelerator vendors: those that Berth ships, and those of administrators."""

from dataclasses import dataclass

import structlog
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin
from agents.accelerators.description import (
    DescriptionError,
    VendorDescription,
    shipped_vendors,
    vendor_named,
)
from agents.accelerators.device_files import DeviceFileVendor, describe_vendor, vendor_mistakes
from agents.accelerators.health import with_actions
from agents.models import AgentDevice, VendorFile
from agents.vendors.health_rules import changed_actions
from common.actors import Actor
from common.errors import NotFound

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class VendorEntry:
    """Vendor in a list; an administrator's own one has an id and values of the form."""

    description: VendorDescription
    id: int | None = None
    form: DeviceFileVendor | None = None


def vendor_entry(row: VendorFile) -> VendorEntry:
    """Return an own vendor as a list shows it."""
    form = DeviceFileVendor.from_json(row.form)
    return VendorEntry(describe_vendor(form), row.pk, form)


def known_vendors() -> tuple[VendorDescription, ...]:
    """Return the descriptions of all vendors, those that Berth ships first, with the health rules that
    administrators changed. Two queries.
    """
    own = [_described(row) for row in VendorFile.objects.all()]
    changed = changed_actions()
    return tuple(
        vendor.model_copy(update={"health": with_actions(vendor.health, changed[vendor.name])})
        if vendor.name in changed
        else vendor
        for vendor in (*shipped_vendors(), *(vendor for vendor in own if vendor))
    )


def known_vendor(name: str) -> VendorDescription | None:
    """Return the description of a vendor. One query, none for vendors that Berth ships."""
    shipped = vendor_named(name)
    row = None if shipped else VendorFile.objects.filter(name=name).first()
    return _described(row) if row else shipped


def vendor_entries(actor: Actor) -> list[VendorEntry]:
    """Return all vendors by title, for superadmins. Raises PermissionDenied. One query."""
    require_superadmin(actor)
    entries = [VendorEntry(vendor) for vendor in shipped_vendors()]
    entries += [vendor_entry(row) for row in VendorFile.objects.all()]
    return sorted(entries, key=lambda entry: entry.description.title.casefold())


def present_vendors() -> frozenset[str]:
    """Return the names of the vendors of which there are devices. One query."""
    return frozenset(AgentDevice.objects.order_by().values_list("vendor", flat=True).distinct())


def access_vendor_file(actor: Actor, vendor_id: int) -> VendorFile:
    """Return an administrator's own vendor. Raises PermissionDenied, NotFound."""
    require_superadmin(actor)
    row = VendorFile.objects.filter(pk=vendor_id).first()
    if row is None:
        raise NotFound(_("There is no such vendor."))
    return row


def _described(row: VendorFile) -> VendorDescription | None:
    """Return the description of an own vendor; None if the rules have become stricter since."""
    form = DeviceFileVendor.from_json(row.form)
    try:
        return None if vendor_mistakes(form) else describe_vendor(form)
    except DescriptionError as error:
        log.warning("vendors.unreadable", vendor=row.name, error=str(error))
        return None
