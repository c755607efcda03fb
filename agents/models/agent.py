"""Machines and the groups that they are partitioned into."""

from typing import Any, ClassVar, Self

from django.contrib.postgres.expressions import ArraySubquery
from django.db import models
from django.db.models import OuterRef, Q
from django.db.models.functions import JSONObject
from django.utils.translation import gettext_lazy

from accounts.models import name_validator
from agents.core.states import STATE_TITLES, AgentState
from agents.models.accelerator import MODEL_LENGTH, AgentDevice
from agents.models.resource_group import ResourceGroup
from agents.runtime.addresses import SIMULATED
from agents.runtime.port import TlsMaterial
from common import clock
from common.values.resources import ResourceSlots

DEVICE_TOLD = (  # of accelerators, to pages and programs
    "slot_name", "device_id", "index", "model", "mem_bytes", "numa_node", "link_group", "is_present", "occupied"
)  # fmt: skip


class AgentQuerySet(models.QuerySet["Agent"]):
    def in_state(self, *states: AgentState) -> Self:
        return self.filter(state__in=[state.value for state in states])

    def in_use(self) -> Self:
        """All that were not retired."""
        return self.exclude(state=AgentState.RETIRED.value)

    def with_parts(self) -> Self:
        """Group, slots, images and, as `device_list` of dicts, accelerators along, in 3 queries."""
        rows = AgentDevice.objects.filter(agent=OuterRef("pk")).order_by("slot_name", "index")
        told = JSONObject(**dict(zip(DEVICE_TOLD, DEVICE_TOLD, strict=True)))
        joined = self.select_related("resource_group").prefetch_related("slots", "images")
        return joined.annotate(device_list=ArraySubquery(rows.values(told=told)))


class Agent(models.Model):
    """One machine that is driven through its Docker engine. `state` is written by agents.machines.lifecycle alone.

    `tls_directory` holds ca.pem, cert.pem and key.pem for engines that are reached over the network; `data`
    what was discovered and decides nothing: kernel, storage driver, devices."""

    name = models.CharField(max_length=64, unique=True, validators=[name_validator])
    address = models.CharField(max_length=255)
    tls_directory = models.CharField(max_length=255, blank=True)
    resource_group = models.ForeignKey(ResourceGroup, on_delete=models.PROTECT, related_name="agents")
    state = models.CharField(
        max_length=20,
        choices=[(state.value, gettext_lazy(title)) for state, title in STATE_TITLES.items()],
        default=AgentState.CONNECTED.value,
        editable=False,
    )
    state_before_loss = models.CharField(max_length=20, default=AgentState.CONNECTED.value, editable=False)
    state_changed_at = models.DateTimeField(default=clock.now, editable=False)
    architecture = models.CharField(max_length=20, editable=False)
    device_model = models.CharField(  # of all its accelerators; "" where they differ, or nobody knows
        max_length=MODEL_LENGTH, blank=True, default="", db_default="", editable=False
    )
    engine_id = models.CharField(max_length=128, editable=False)
    engine_version = models.CharField(max_length=60, editable=False)
    heartbeat_at = models.DateTimeField(default=clock.now, editable=False)
    last_error = models.CharField(max_length=500, blank=True, editable=False)
    data = models.JSONField(default=dict, blank=True, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    device_list: list[dict[str, Any]]  # of those that came `with_parts`

    objects: ClassVar = AgentQuerySet.as_manager()

    class Meta:
        ordering = ("name",)
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in AgentState]), name="agent_state_is_known"
            ),
            models.UniqueConstraint(
                fields=("address",),
                condition=~Q(state=AgentState.RETIRED.value),
                name="agent_address_once",
                violation_error_message=gettext_lazy("Another agent has this address."),
            ),
            models.UniqueConstraint(
                fields=("engine_id",),
                condition=~Q(state=AgentState.RETIRED.value),
                name="agent_engine_once",
                violation_error_message=gettext_lazy(
                    "The engine at this address belongs to another agent already."
                ),
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def is_simulated(self) -> bool:
        """Nothing runs there."""
        return self.address.startswith(SIMULATED)

    @property
    def tls(self) -> TlsMaterial | None:
        if not self.tls_directory:
            return None
        files = (f"{self.tls_directory}/{name}.pem" for name in ("ca", "cert", "key"))
        return TlsMaterial(*files)

    @property
    def capacity(self) -> ResourceSlots:
        """What the machine has: the most that one kernel may get."""
        return ResourceSlots({slot.slot_name: slot.capacity for slot in self.slots.all()})

    @property
    def promised(self) -> ResourceSlots:
        """What all its kernels together may hold."""
        return ResourceSlots({slot.slot_name: slot.promised for slot in self.slots.all()})

    @property
    def occupied(self) -> ResourceSlots:
        return ResourceSlots({slot.slot_name: slot.occupied for slot in self.slots.all()})


class AgentSlot(models.Model):
    """What an agent has of one slot, how much more it promises (agents.capacity.overcommit), and what live sessions hold of it, in base
    units. `occupied` is kept by a database trigger on the allocation rows, and by nobody else; another refuses that it
    grows beyond `promised`. It is more where less was promised while it was held."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="slots")
    slot_name = models.CharField(max_length=32)
    capacity = models.BigIntegerField()
    surplus = models.BigIntegerField(default=0, db_default=0, editable=False)
    occupied = models.BigIntegerField(default=0, editable=False)

    class Meta:
        ordering = ("agent_id", "slot_name")
        constraints = (
            models.UniqueConstraint(fields=("agent", "slot_name"), name="agent_slot_once"),
            models.CheckConstraint(
                condition=Q(occupied__gte=0, surplus__gte=0), name="agent_slot_amounts_not_negative"
            ),
        )

    def __str__(self) -> str:
        return f"{self.slot_name} of {self.agent_id}: {self.occupied} of {self.promised}"

    @property
    def promised(self) -> int:
        return self.capacity + self.surplus


class AgentImage(models.Model):
    """An image that is on an agent, under one of its names."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="images")
    reference = models.CharField(max_length=255)
    image_id = models.CharField(max_length=80)
    size_bytes = models.BigIntegerField(default=0)

    class Meta:
        ordering = ("agent_id", "reference")
        constraints = (models.UniqueConstraint(fields=("agent", "reference"), name="agent_image_once"),)

    def __str__(self) -> str:
        return f"{self.reference} on {self.agent_id}"
