"""Environment variables by which vendors' container runtimes choose the accelerators of a container.

A machine whose default runtime is one of these gives devices to every container that has such a
variable, from its image or from its user, and Gaudi's even to one without it. Pure.
"""

from collections.abc import Mapping
from types import MappingProxyType

NO_ACCELERATORS: Mapping[str, str] = MappingProxyType(
    {
        "AMD_VISIBLE_DEVICES": "void",  # everything but "all" and numbers means none
        # habana-container-runtime takes an absent or empty variable and "void" for "all".
        "HABANA_VISIBLE_DEVICES": "none",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }
)
"""Values that give a container no device of the vendor."""
VENDOR_PREFIXES = ("AMD_VISIBLE_DEVICES", "DOCKER_RESOURCE_", "HABANA_", "NVIDIA_")
"""Beginnings of the names of variables that only Berth may set."""
