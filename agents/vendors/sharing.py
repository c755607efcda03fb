"""Modes in which the devices of a vendor can be given in parts."""

from agents.accelerators.description import shipped_vendors
from agents.core.isolation import SharingMode
from agents.vendors.selectors import known_vendor

EVERY_MODE = frozenset(SharingMode) - {SharingMode.FORBIDDEN}


def sharing_modes(vendor: str) -> frozenset[SharingMode]:
    """Return the modes that the vendor's description lists; none: whole devices only. Simulated
    devices ("") have all. One query for an administrator's own vendor, else none.
    """
    if not vendor:
        return EVERY_MODE
    description = known_vendor(vendor)
    return frozenset(mode for mode in EVERY_MODE if description and mode.value in description.sharing)


def vendors_with(mode: SharingMode) -> list[str]:
    """Return the vendors that Berth ships with the mode, and that of simulated devices. No query."""
    return ["", *(vendor.name for vendor in shipped_vendors() if mode in sharing_modes(vendor.name))]
