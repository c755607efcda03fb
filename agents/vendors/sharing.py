"""Modes in which the devices of a vendor can be given in parts. No queries."""

from agents.accelerators.description import shipped_vendors, vendor_named
from agents.core.isolation import SharingMode

EVERY_MODE = frozenset(SharingMode) - {SharingMode.FORBIDDEN}


def sharing_modes(vendor: str) -> frozenset[SharingMode]:
    """Return the modes that the vendor's description lists; none: whole devices only. Vendors of
    administrators have none, simulated devices ("") have all.
    """
    if not vendor:
        return EVERY_MODE
    description = vendor_named(vendor)
    return frozenset(mode for mode in EVERY_MODE if description and mode.value in description.sharing)


def vendors_with(mode: SharingMode) -> list[str]:
    """Return the vendors that have the mode, with that of simulated devices."""
    return ["", *(vendor.name for vendor in shipped_vendors() if mode in sharing_modes(vendor.name))]
