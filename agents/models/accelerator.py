"""Table of accelerator devices."""

from django.db import models
from django.db.models import Q

from common.values.resources import MILLI

MODEL_LENGTH = 120


class AgentDevice(models.Model):
    """One accelerator of an agent.

    `occupied` is the amount allocated to live sessions, in milli-devices; only a database trigger
    on the allocation rows writes it. A device that is not `is_present` is not allocated any more;
    its row stays while it is allocated. Devices with the same `link_group` are connected by NVLink
    or similar; None: unknown.
    """

    agent = models.ForeignKey("agents.Agent", on_delete=models.CASCADE, related_name="devices")
    slot_name = models.CharField(max_length=32)
    device_id = models.CharField(
        max_length=128, help_text="Id of the device given by the vendor; it survives restarts."
    )
    index = models.PositiveIntegerField()
    model = models.CharField(max_length=MODEL_LENGTH, blank=True)
    mem_bytes = models.BigIntegerField(default=0)
    numa_node = models.IntegerField(null=True)
    link_group = models.IntegerField(null=True)
    is_present = models.BooleanField(default=True, db_default=True)
    occupied = models.IntegerField(default=0, db_default=0, editable=False)

    class Meta:
        ordering = ("agent_id", "slot_name", "index")
        constraints = (
            models.UniqueConstraint(fields=("agent", "device_id"), name="agent_device_once"),
            models.CheckConstraint(
                condition=Q(occupied__gte=0, occupied__lte=MILLI), name="agent_device_not_overfull"
            ),
        )

    def __str__(self) -> str:
        return f"{self.slot_name} {self.index} of {self.agent_id}: {self.occupied} of {MILLI}"
