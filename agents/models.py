"""Machines and the groups that they are partitioned into."""

from typing import TYPE_CHECKING, ClassVar, Self

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy

from accounts.models import name_validator
from agents.runtime.addresses import SHARED, SIMULATED
from agents.runtime.base import TlsMaterial
from agents.states import STATE_TITLES, AgentState
from common import clock
from common.slots import ResourceSlots

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise


class Strategy(models.TextChoices):
    """Which of the agents that have room gets the session: the fullest, or the emptiest."""

    CONCENTRATED = "concentrated", gettext_lazy("Concentrated")
    DISPERSED = "dispersed", gettext_lazy("Dispersed")


class Scheduler(models.TextChoices):
    """Who is next."""

    FIFO = "fifo", gettext_lazy("First in, first out")
    LIFO = "lifo", gettext_lazy("Last in, first out")
    DRF = "drf", gettext_lazy("Who holds least (dominant resource fairness)")


class UseRule(models.TextChoices):
    """Which of the amounts that have a least use must be below it."""

    ALL = "all", gettext_lazy("all of them are below")
    ANY = "any", gettext_lazy("any of them is below")


def _span(
    name: "_StrPromise", help_text: "_StrPromise"
) -> "models.PositiveIntegerField[int | None, int | None]":
    return models.PositiveIntegerField(
        name, null=True, blank=True, validators=[MinValueValidator(60)], help_text=help_text
    )


def _percent(name: "_StrPromise") -> "models.PositiveSmallIntegerField[int | None, int | None]":
    return models.PositiveSmallIntegerField(
        name,
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(100)],
        help_text=gettext_lazy("Percent of what a session holds. Empty: any use will do."),
    )


class ResourceGroup(models.Model):
    """A set of agents and the policy by which sessions are placed on them. `epoch` counts committed plans."""

    name = models.CharField(max_length=64, unique=True, validators=[name_validator])
    is_default = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)
    strategy = models.CharField(max_length=20, choices=Strategy.choices, default=Strategy.CONCENTRATED)
    scheduler = models.CharField(max_length=20, choices=Scheduler.choices, default=Scheduler.FIFO)
    ageing_s = models.PositiveIntegerField(
        gettext_lazy("Ageing"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=gettext_lazy("Seconds of waiting that raise a session by one priority. Empty: none do."),
    )
    patience_s = models.PositiveIntegerField(
        gettext_lazy("Patience"),
        default=600,
        help_text=gettext_lazy(
            "Seconds after which room is kept for the first session that finds none, where nobody knows when there"
            " will be. Where that is known, it is kept at once."
        ),
    )
    max_lifetime_s = _span(gettext_lazy("Lifetime"), gettext_lazy("Seconds that a session runs at most."))
    max_idle_s = _span(
        gettext_lazy("Idle time"),
        gettext_lazy("Seconds without anybody at work in it after which an interactive session ends."),
    )
    min_cpu_percent = _percent(gettext_lazy("Least use of CPU"))
    min_mem_percent = _percent(gettext_lazy("Least use of memory"))
    min_device_percent = _percent(gettext_lazy("Least use of accelerators"))
    min_device_mem_percent = _percent(gettext_lazy("Least use of their memory"))
    use_rule = models.CharField(
        gettext_lazy("It uses too little if"), max_length=3, choices=UseRule, default=UseRule.ALL
    )
    use_window_s = models.PositiveIntegerField(
        gettext_lazy("Window"),
        default=3600,
        validators=[MinValueValidator(600), MaxValueValidator(86400)],
        help_text=gettext_lazy("Seconds over which use is averaged."),
    )
    use_grace_s = models.PositiveIntegerField(
        gettext_lazy("Grace"),
        default=3600,
        validators=[MinValueValidator(600)],
        help_text=gettext_lazy("Seconds from when it uses too little to its end."),
    )
    ends_idle_batch = models.BooleanField(
        gettext_lazy("Batch too"),
        default=False,
        help_text=gettext_lazy(
            "Batch sessions end for little use as well; nobody is expected at work in them."
        ),
    )
    max_extensions = models.PositiveIntegerField(
        gettext_lazy("Extensions"), default=3, help_text=gettext_lazy("How often a session may be extended.")
    )
    extension_s = models.PositiveIntegerField(
        gettext_lazy("Length of an extension"), default=3600, help_text=gettext_lazy("Seconds, each time.")
    )
    epoch = models.BigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(
                fields=("is_default",),
                condition=Q(is_default=True),
                name="one_default_resource_group",
                violation_error_message=gettext_lazy("There is a default resource group already."),
            ),
            models.CheckConstraint(
                condition=Q(strategy__in=Strategy.values), name="resource_group_strategy_is_known"
            ),
            models.CheckConstraint(
                condition=Q(scheduler__in=Scheduler.values), name="resource_group_scheduler_is_known"
            ),
            models.CheckConstraint(
                condition=Q(use_rule__in=UseRule.values), name="resource_group_use_rule_is_known"
            ),
            models.CheckConstraint(
                condition=(Q(max_lifetime_s=None) | Q(max_lifetime_s__gt=0))
                & (Q(max_idle_s=None) | Q(max_idle_s__gt=0)),
                name="resource_group_ends_take_time",
            ),
            models.CheckConstraint(
                condition=Q(ageing_s__isnull=True) | Q(ageing_s__gt=0),
                name="resource_group_ageing_takes_time",
            ),
        )

    def __str__(self) -> str:
        return self.name


class AgentQuerySet(models.QuerySet["Agent"]):
    def in_state(self, *states: AgentState) -> Self:
        return self.filter(state__in=[state.value for state in states])

    def in_use(self) -> Self:
        """All that were not retired."""
        return self.exclude(state=AgentState.RETIRED.value)

    def with_parts(self) -> Self:
        """Group, slots and images along, in 3 queries."""
        return self.select_related("resource_group").prefetch_related("slots", "images")


class Agent(models.Model):
    """One machine that is driven through its Docker engine. `state` is written by agents.lifecycle alone.

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
    engine_id = models.CharField(max_length=128, editable=False)
    engine_version = models.CharField(max_length=60, editable=False)
    heartbeat_at = models.DateTimeField(default=clock.now, editable=False)
    last_error = models.CharField(max_length=500, blank=True, editable=False)
    data = models.JSONField(default=dict, blank=True, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)

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
    def answers_with_others(self) -> bool:
        """Simulated, with all that it has in Redis: many such machines are asked by one request."""
        return self.is_simulated and SHARED in self.address

    @property
    def tls(self) -> TlsMaterial | None:
        if not self.tls_directory:
            return None
        files = (f"{self.tls_directory}/{name}.pem" for name in ("ca", "cert", "key"))
        return TlsMaterial(*files)

    @property
    def capacity(self) -> ResourceSlots:
        return ResourceSlots({slot.slot_name: slot.capacity for slot in self.slots.all()})

    @property
    def occupied(self) -> ResourceSlots:
        return ResourceSlots({slot.slot_name: slot.occupied for slot in self.slots.all()})


class AgentSlot(models.Model):
    """What an agent has of one slot, and what live sessions hold of it, in base units. `occupied` is kept by
    a database trigger on the allocation rows, and by nobody else."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="slots")
    slot_name = models.CharField(max_length=32)
    capacity = models.BigIntegerField()
    occupied = models.BigIntegerField(default=0, editable=False)

    class Meta:
        ordering = ("agent_id", "slot_name")
        constraints = (
            models.UniqueConstraint(fields=("agent", "slot_name"), name="agent_slot_once"),
            models.CheckConstraint(
                condition=Q(occupied__gte=0) & Q(occupied__lte=F("capacity")), name="agent_slot_not_overfull"
            ),
        )

    def __str__(self) -> str:
        return f"{self.slot_name} of {self.agent_id}: {self.occupied} of {self.capacity}"


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
