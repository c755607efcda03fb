"""Devices that are split into partitions (MIG): given out as their partitions, never as a whole."""

from agents.models import Agent, AgentDevice, Withheld
from common import clock

SPLIT = "Split into partitions."
MODE = "mig"  # fact: 1 if only partitions of the device can be used


def with_partitions(device: AgentDevice) -> list[int]:
    """Return the ids of the device and of its partitions, which are as ill as it is. One query."""
    parts = AgentDevice.objects.filter(agent_id=device.agent_id, parent_id=device.device_id)
    return [device.pk, *parts.order_by("pk").values_list("pk", flat=True)]


def withhold_split_devices(agent: Agent) -> None:
    """Withhold the devices of a locked agent that are split or about to be, and give out those that are
    not any more. The caller writes the capacity. One query, three if anything changes.
    """
    rows = list(agent.devices.filter(is_present=True))
    parents = {row.parent_id for row in rows if row.parent_id}
    changing = {row.device_id for row in rows if row.wanted_layout is not None}

    def is_closed(row: AgentDevice) -> bool:
        if row.parent_id:
            return row.parent_id in changing
        return row.device_id in parents | changing or row.facts.get(MODE) == 1

    closed = [row.pk for row in rows if row.withheld == Withheld.NOTHING and is_closed(row)]
    opened = [row.pk for row in rows if row.withheld == Withheld.PARTITIONED and not is_closed(row)]
    if closed:
        AgentDevice.objects.filter(pk__in=closed).update(
            withheld=Withheld.PARTITIONED, withheld_because=SPLIT, withheld_since=clock.now()
        )
    if opened:
        AgentDevice.objects.filter(pk__in=opened).update(
            withheld=Withheld.NOTHING, withheld_because="", withheld_since=None
        )
