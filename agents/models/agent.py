"""Tables of agents, their slots and their images."""

from typing import Any, ClassVar, Self

from django.contrib.postgres.expressions import ArraySubquery
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Count, F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, JSONObject
from django.utils.translation import gettext_lazy

from accounts.models import name_validator
from agents.core.sandboxes import Sandbox
from agents.core.states import STATE_TITLES, AgentState
from agents.models.accelerator import MODEL_LENGTH, RETURNING, AgentDevice
from agents.models.connection import credentials_of
from agents.models.resource_group import ResourceGroup
from agents.runtime.addresses import SIMULATED
from agents.runtime.port import Credentials
from common import clock
from common.values.resources import MILLI, ResourceSlots

REASON_LENGTH = 200

DEVICE_FIELDS = (  # accelerator fields shown on pages and in REST
    "slot_name", "device_id", "index", "model", "mem_bytes", "numa_node", "link_group", "is_present", "missing_since",
    "occupied", "parent_id",
)  # fmt: skip


class AgentQuerySet(models.QuerySet["Agent"]):
    def in_state(self, *states: AgentState) -> Self:
        return self.filter(state__in=[state.value for state in states])

    def in_use(self) -> Self:
        """Agents that are not retired."""
        return self.exclude(state=AgentState.RETIRED.value)

    def with_parts(self) -> Self:
        """Load group, slots, images and, as `device_list` of dicts, accelerators; 3 queries."""
        rows = AgentDevice.objects.filter(agent=OuterRef("pk")).order_by("slot_name", "index")
        fields = JSONObject(**dict(zip(DEVICE_FIELDS, DEVICE_FIELDS, strict=True)))
        joined = self.select_related("resource_group", "relay").prefetch_related("slots", "images")
        return joined.annotate(device_list=ArraySubquery(rows.values(device=fields)))


class Agent(models.Model):
    """One machine, driven through its Docker engine. Only agents.machines.lifecycle writes `state`.

    `connection` says how Berth is let in (`models.connection`). `data` holds discovered facts for
    display: kernel, storage driver, devices.
    """

    name = models.CharField(max_length=64, unique=True, validators=[name_validator])
    address = models.CharField(max_length=255)
    connection = models.JSONField(default=dict, db_default={}, blank=True, editable=False)
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
    device_model = models.CharField(  # common to all its accelerators; "" if they differ or are unknown
        max_length=MODEL_LENGTH, blank=True, default="", db_default="", editable=False
    )
    device_mem_bytes = models.BigIntegerField(  # least memory of its accelerators; 0: unknown or none
        default=0, db_default=0, editable=False
    )
    device_api_version = models.PositiveIntegerField(  # least `api_version` of them; 0: unknown or none
        default=0, db_default=0, editable=False
    )
    engine_id = models.CharField(max_length=128, editable=False)
    engine_version = models.CharField(max_length=60, editable=False)
    storage_hosts = (
        ArrayField(  # names of the storage hosts that the machine reaches, proven by the apps above
            models.CharField(max_length=64), default=list, db_default=[], editable=False
        )
    )
    sandboxes = ArrayField(  # that its engine has besides runc (`core.sandboxes`)
        models.CharField(max_length=10), default=list, db_default=[], editable=False
    )
    maintenance_ends_at = models.DateTimeField(  # in maintenance: when it is to take sessions again
        null=True, blank=True, editable=False
    )
    maintenance_reason = models.CharField(
        max_length=REASON_LENGTH, blank=True, default="", db_default="", editable=False
    )
    heartbeat_at = models.DateTimeField(default=clock.now, editable=False)
    last_error = models.CharField(max_length=500, blank=True, editable=False)
    data = models.JSONField(default=dict, blank=True, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    device_list: list[dict[str, Any]]  # only if loaded by `with_parts`

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
    def missing_sandbox(self) -> str:
        """Return the sandbox of its group that its engine lacks; "" if it has it."""
        wanted = self.resource_group.sandbox
        return "" if wanted in (Sandbox.RUNC, *self.sandboxes) else wanted

    @property
    def is_simulated(self) -> bool:
        """True if the engine is simulated."""
        return self.address.startswith(SIMULATED)

    @property
    def is_local(self) -> bool:
        """True if the engine is that of the portal's own machine."""
        return self.address.startswith("unix://")

    @property
    def credentials(self) -> Credentials | None:
        """Return what a runtime needs besides the address; None for a local socket."""
        return credentials_of(self.connection)

    @property
    def capacity(self) -> ResourceSlots:
        """Capacity of the machine: the most that one kernel may get."""
        return ResourceSlots({slot.slot_name: slot.capacity for slot in self.slots.all()})

    @property
    def installed(self) -> ResourceSlots:
        """Capacity with withheld devices that are expected back, of slots loaded `with_installed`."""
        return ResourceSlots({slot.slot_name: slot.installed for slot in self.slots.all()})

    @property
    def allocatable(self) -> ResourceSlots:
        """Capacity including over-commit: the most that all its kernels together may get."""
        return ResourceSlots({slot.slot_name: slot.allocatable for slot in self.slots.all()})

    @property
    def occupied(self) -> ResourceSlots:
        return ResourceSlots({slot.slot_name: slot.occupied for slot in self.slots.all()})


class AgentSlotQuerySet(models.QuerySet["AgentSlot"]):
    def with_installed(self) -> Self:
        """Annotate each slot with `installed`: its capacity, and the withheld devices that are expected back."""
        withheld = AgentDevice.objects.filter(
            agent=OuterRef("agent"), slot_name=OuterRef("slot_name"), is_present=True, withheld__in=RETURNING
        )
        count = Subquery(withheld.order_by().values("agent").values_list(Count("pk")))
        return self.annotate(installed=F("capacity") + MILLI * Coalesce(count, 0))


class AgentSlot(models.Model):
    """Capacity, over-commit surplus (agents.capacity.overcommit) and allocation of one slot of an
    agent, in base units.

    Only a database trigger on the allocation rows writes `occupied`; another rejects increases
    beyond `allocatable`. It can be larger if `allocatable` was reduced while allocated.
    """

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="slots")
    slot_name = models.CharField(max_length=32)
    capacity = models.BigIntegerField()
    surplus = models.BigIntegerField(default=0, db_default=0, editable=False)
    occupied = models.BigIntegerField(default=0, editable=False)
    installed: int  # only if loaded `with_installed`

    objects: ClassVar = AgentSlotQuerySet.as_manager()

    class Meta:
        ordering = ("agent_id", "slot_name")
        constraints = (
            models.UniqueConstraint(fields=("agent", "slot_name"), name="agent_slot_once"),
            models.CheckConstraint(
                condition=Q(occupied__gte=0, surplus__gte=0), name="agent_slot_amounts_not_negative"
            ),
        )

    def __str__(self) -> str:
        return f"{self.slot_name} of {self.agent_id}: {self.occupied} of {self.allocatable}"

    @property
    def allocatable(self) -> int:
        return self.capacity + self.surplus


class AgentImage(models.Model):
    """One name of an image that is on an agent, as its last heartbeat told.

    `brought_at` is None unless Berth brought the image there; only such images are removed again.
    `used_at` is when a session with it last started or ended there.
    """

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="images")
    reference = models.CharField(max_length=255)
    image_id = models.CharField(max_length=80)
    size_bytes = models.BigIntegerField(default=0)
    found_at = models.DateTimeField(default=clock.now, editable=False)
    brought_at = models.DateTimeField(null=True, blank=True, editable=False)
    used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ("agent_id", "reference")
        constraints = (models.UniqueConstraint(fields=("agent", "reference"), name="agent_image_once"),)

    def __str__(self) -> str:
        return f"{self.reference} on {self.agent_id}"
