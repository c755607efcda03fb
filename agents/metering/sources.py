"""Present use of a machine's accelerators, by the way in which this process reaches them."""

from agents.accelerators import measure_devices
from agents.accelerators.base import DeviceUse
from agents.models import Agent
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.selectors import runtime_of

LOCAL = "unix://"


def measure_devices_of(agent: Agent) -> tuple[DeviceUse, ...]:
    """Return the present use of the accelerators of one machine, opening the vendors' tools once;
    devices that report nothing are absent. Calls the machine, never the database.
    """
    runtime = runtime_of(agent)
    if isinstance(runtime, SimulatedRuntime):
        return runtime.accelerators.measure()
    return measure_devices() if agent.address.startswith(LOCAL) else ()
