"""Table of accelerator devices."""

from django.db import models
from django.db.models import Q

from common.values.resources import MILLI

MODEL_LENGTH = 120


class Withheld(models.TextChoices):
    """Reason for which a device that is there gets no new allocations."""

    NOTHING = "", "Nothing"
    BUSY = "busy", "Used outside Berth"
    QUARANTINE = "quarantine", "Ill"
    ADMINISTRATOR = "administrator", "By an administrator"
    PARTITIONED = "partitioned", "Split into partitions, or about to be"
    HELPER = "helper", "What limits its shares is missing"
    UNAVAILABLE = "unavailable", "Its engine could not give it to a session"


RETURNING = (
    Withheld.BUSY,
    Withheld.QUARANTINE,
    Withheld.ADMINISTRATOR,
    Withheld.HELPER,
    Withheld.UNAVAILABLE,
)
"""Reasons after which a device is expected back as it was, so that requests wait for it."""


class AgentDevice(models.Model):
    """One accelerator of an agent, or one partition of it (`parent_id`, `profile`).

    `occupied` is the amount allocated to live sessions, in milli-devices; only a database trigger
    on the allocation rows writes it. Devices with the same `link_group` are connected by NVLink or
    similar; None: unknown. `facts`, `driver`, `api_version`: see `AcceleratorDevice`.

    A device that is not `is_present`, or is `withheld`, gets no new allocations (`is_usable`). One that
    disappeared keeps its row, with `missing_since`, until it returns or is forgotten. `warning` says
    what is wrong with a device that is still used.

    `sharing_project`: sessions of this project alone get parts of the device while one holds some, because
    clients of one MPS daemon see each other's shared memory; the database clears it with the last one, and
    refuses the parts of others.

    `wanted_layout`: partitions that are about to be made, {profile: count}; null: none are.
    `is_split_on_demand`: they were made for a session that waited, and may be removed when empty.
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
    missing_since = models.DateTimeField(
        null=True,
        editable=False,
        help_text="Time since which the device has not been seen; null: it is there.",
    )
    vendor = models.CharField(max_length=40, blank=True, default="", db_default="")
    pci_address = models.CharField(max_length=40, blank=True, default="", db_default="")
    parent_id = models.CharField(max_length=128, blank=True, default="", db_default="")
    profile = models.CharField(max_length=40, blank=True, default="", db_default="")
    facts = models.JSONField(default=dict, db_default={}, blank=True)
    driver = models.CharField(max_length=60, blank=True, default="", db_default="")
    api_version = models.PositiveIntegerField(default=0, db_default=0)
    withheld = models.CharField(
        max_length=20, choices=Withheld.choices, blank=True, default="", db_default="", editable=False
    )
    withheld_because = models.CharField(max_length=500, blank=True, default="", db_default="", editable=False)
    withheld_since = models.DateTimeField(null=True, editable=False)
    warning = models.CharField(max_length=500, blank=True, default="", db_default="", editable=False)
    is_usable = models.GeneratedField(
        expression=Q(is_present=True, withheld=""),  # type: ignore[arg-type]  # a Q is an expression
        output_field=models.BooleanField(),
        db_persist=True,
    )
    wanted_layout = models.JSONField(null=True, editable=False)
    is_split_on_demand = models.BooleanField(default=False, db_default=False, editable=False)
    sharing_project = models.ForeignKey(
        "accounts.Project",
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        db_index=False,
    )
    occupied = models.IntegerField(default=0, db_default=0, editable=False)

    class Meta:
        ordering = ("agent_id", "slot_name", "index")
        constraints = (
            models.UniqueConstraint(fields=("agent", "device_id"), name="agent_device_once"),
            models.CheckConstraint(
                condition=Q(occupied__gte=0, occupied__lte=MILLI), name="agent_device_not_overfull"
            ),
        )
        indexes = (
            models.Index(fields=("agent",), condition=Q(is_usable=False), name="agent_device_not_usable"),
        )

    def __str__(self) -> str:
        return f"{self.slot_name} {self.index} of {self.agent_id}: {self.occupied} of {MILLI}"
