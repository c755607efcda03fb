"""Sandboxes: the container runtimes of which a resource group chooses one for its sessions. Pure."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

from common.i18n import gettext_noop


class Sandbox(StrEnum):
    """Separation of the containers of sessions from their machine's kernel. RUNC is the engine's default
    runtime; every machine has it.
    """

    RUNC = "runc"
    GVISOR = "gvisor"
    KATA = "kata"


SANDBOX_TITLES = {
    Sandbox.RUNC: gettext_noop("runc: containers share the kernel of their machine"),
    Sandbox.GVISOR: gettext_noop("gVisor: a kernel in user space for each container"),
    Sandbox.KATA: gettext_noop("Kata Containers: a virtual machine for each container"),
}
SANDBOX_NAMES: Mapping[str, str] = MappingProxyType(
    {Sandbox.RUNC: "runc", Sandbox.GVISOR: "gVisor", Sandbox.KATA: "Kata Containers"}
)
RUNTIMES: Mapping[Sandbox, tuple[str, ...]] = MappingProxyType(
    {
        Sandbox.GVISOR: ("runsc", "io.containerd.runsc.v1"),
        Sandbox.KATA: ("kata", "kata-runtime", "kata-qemu", "kata-clh", "kata-fc", "io.containerd.kata.v2"),
    }
)
"""Names under which engines know the runtime of a sandbox, the first found counts: those of the
installation guides of gVisor and Kata Containers.
"""


def sandbox_runtime(sandbox: str, runtimes: Iterable[str]) -> str | None:
    """Return the name of the engine's runtime for a sandbox; "" for the engine's default, None if the
    engine has none.
    """
    if sandbox == Sandbox.RUNC:
        return ""
    known = set(runtimes)
    return next((name for name in RUNTIMES[Sandbox(sandbox)] if name in known), None)


def offered_sandboxes(runtimes: Iterable[str]) -> list[str]:
    """Return the sandboxes besides RUNC that an engine with these runtimes has."""
    known = list(runtimes)
    return [sandbox.value for sandbox in RUNTIMES if sandbox_runtime(sandbox, known)]


def gives_devices(sandbox: str) -> bool:
    """Return True if containers in this sandbox can get accelerators. gVisor and Kata Containers replace the
    runtime and the device files by which vendors give theirs.
    """
    return sandbox == Sandbox.RUNC
