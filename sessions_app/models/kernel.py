"""Containers of sessions: allocations, logs and measured use."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q, functions

from agents.models import Agent
from common.values.resources import CPU, ResourceSlots
from sessions_app.core.container_spec import container_name


class Kernel(models.Model):
    """Container of a session, named by role and index: main1, sub1…

    Null in `requested_slots` or `shm_bytes`: as its session says. `command` is that of a container
    other than main1. `ended_at`: it ended and its session goes on without it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(
        "sessions_app.ComputeSession", on_delete=models.CASCADE, db_index=False, related_name="kernels"
    )
    role = models.CharField(max_length=20, default="main")
    index = models.PositiveSmallIntegerField(default=1)
    rank = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Place in its session; 0: main1."
    )
    requested_slots = models.JSONField(null=True, editable=False)
    shm_bytes = models.BigIntegerField(null=True, editable=False)
    command = models.TextField(blank=True, default="", db_default="", editable=False)
    is_tolerated = models.BooleanField(
        default=False, db_default=False, help_text="true if its session goes on when it fails."
    )
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, null=True, related_name="kernels")
    attempt = models.PositiveSmallIntegerField(default=1)
    container_id = models.CharField(max_length=64, blank=True)
    address = models.GenericIPAddressField(null=True)
    exit_code = models.IntegerField(null=True)
    ended_at = models.DateTimeField(null=True, editable=False)
    memory_kills = models.PositiveIntegerField(default=0, help_text="Programs that the kernel ended.")
    memory_killed_at = models.DateTimeField(null=True, help_text="The last of them, by the engine's clock.")
    memory_peak_bytes = models.BigIntegerField(null=True, help_text="As of then.")

    class Meta:
        ordering = ("session", "rank")
        constraints = (
            models.UniqueConstraint(fields=("session", "role", "index"), name="kernel_name_in_session"),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        return f"{self.role}{self.index}"

    @property
    def slots(self) -> ResourceSlots:
        """Requested slots, in base units."""
        own = self.requested_slots
        return self.session.slots if own is None else ResourceSlots(own)

    @property
    def is_main(self) -> bool:
        """True for main1, which runs the command of the session."""
        return self.rank == 0

    @property
    def placed_agent(self) -> Agent:
        """Agent of a placed kernel. Raises RelatedObjectDoesNotExist before placement."""
        if self.agent is None:
            raise Kernel.agent.RelatedObjectDoesNotExist(f"{self.container_name} has no machine yet.")
        return self.agent

    @property
    def container_name(self) -> str:
        return container_name(self.id, self.attempt)

    @property
    def cpuset(self) -> str:
        """Allocated cores, like 0-2,5; empty: all cores.

        One query, none if allocations were prefetched.
        """
        return next((held.cpuset for held in self.allocations.all() if held.slot_name == CPU), "")


class KernelAllocation(models.Model):
    """Allocation of a kernel on its agent; these rows are the ledger.

    Triggers keep AgentSlot.occupied (ADR 0003) and AgentDevice.occupied (ADR 0041) equal to them.
    `devices`: ids in order; each gives an equal part of `amount`: whole devices, or a share of a
    single one. Empty if the agent's devices are not known individually. `cpuset`: for CPU, the
    cores, like 0-2,5; empty: all. `isolation` (`agents.core.isolation`) is what was read back on the
    running container of a part of a device, empty before; `isolation_note` why it is less than the
    group's rule says.
    """

    kernel = models.ForeignKey(Kernel, on_delete=models.PROTECT, db_index=False, related_name="allocations")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="allocations")
    slot_name = models.CharField(max_length=32)
    amount = models.BigIntegerField()
    devices = ArrayField(models.BigIntegerField(), default=list, db_default=[], editable=False)
    cpuset = models.CharField(max_length=1024, blank=True, default="", db_default="", editable=False)
    isolation = models.CharField(max_length=12, blank=True, default="", db_default="", editable=False)
    isolation_note = models.CharField(max_length=300, blank=True, default="", db_default="", editable=False)
    held_since = models.DateTimeField(db_default=functions.Now(), editable=False)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("kernel", "slot_name"), name="allocation_once"),
            models.CheckConstraint(condition=Q(amount__gt=0), name="allocation_is_positive"),
        )

    def __str__(self) -> str:
        return f"{self.amount} {self.slot_name} on {self.agent_id}"


class KernelLog(models.Model):
    """Log of a kernel's last attempt after its container is removed (`container_io/kept_logs.py`).

    `index_gzip`: boundaries of the log entries; empty: unknown. `is_cut`: earlier output is
    missing, or may be.
    """

    kernel = models.OneToOneField(Kernel, on_delete=models.CASCADE, related_name="log")
    content_gzip = models.BinaryField()
    index_gzip = models.BinaryField(default=b"")
    size_bytes = models.PositiveIntegerField()
    is_cut = models.BooleanField(default=False)
    attempt = models.PositiveSmallIntegerField(null=True)

    def __str__(self) -> str:
        return f"log of {self.kernel_id}"


class KernelUsage(models.Model):
    """Last reading of a kernel's counters, by the engine's clock, and its accelerators.

    The next reading is compared with it. The accelerator columns outlive the allocation; null:
    none, or not measurable; `device_mem_total` also where used memory says nothing about work.
    """

    kernel = models.OneToOneField(Kernel, on_delete=models.CASCADE, primary_key=True, related_name="usage")
    at = models.DateTimeField()
    cpu_ns = models.BigIntegerField(null=True)
    net_received_bytes = models.BigIntegerField(null=True)
    net_sent_bytes = models.BigIntegerField(null=True)
    disk_read_bytes = models.BigIntegerField(null=True)
    disk_written_bytes = models.BigIntegerField(null=True)
    device_count = models.PositiveSmallIntegerField(null=True)
    device_milli = models.PositiveIntegerField(
        null=True, help_text="Thousandths of a device, of all together."
    )
    device_mem_total = models.BigIntegerField(null=True, help_text="All memory of these devices.")
    devices_are_own = models.BooleanField(null=True, help_text="Nobody else held a part of them.")
    own_device_mem = models.JSONField(
        default=dict,
        db_default={},
        help_text="Memory in bytes that its processes use, by device where the driver tells.",
    )

    def __str__(self) -> str:
        return f"usage of {self.kernel_id}"


class KernelMetric(models.Model):
    """Mean use of a kernel over `span_s` from `at`; from a minute on also the maximum (`metrics/`).

    Null: unknown. Traffic is in bytes per second. Device columns are for whole devices, including
    other kernels that share them: mean utilisation, total used memory, and the mean activity by which
    idle rules judge them (`DeviceUse`).
    """

    pk = models.CompositePrimaryKey("kernel_id", "span_s", "at")
    kernel = models.ForeignKey(Kernel, on_delete=models.CASCADE, related_name="metrics", db_index=False)
    span_s = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    cpu_milli = models.BigIntegerField(null=True)
    mem_bytes = models.BigIntegerField(null=True)
    net_received = models.BigIntegerField(null=True)
    net_sent = models.BigIntegerField(null=True)
    disk_read = models.BigIntegerField(null=True)
    disk_written = models.BigIntegerField(null=True)
    device_percent = models.BigIntegerField(null=True)
    device_mem_bytes = models.BigIntegerField(null=True)
    device_activity = models.BigIntegerField(null=True)
    cpu_milli_max = models.BigIntegerField(null=True)
    mem_bytes_max = models.BigIntegerField(null=True)
    net_received_max = models.BigIntegerField(null=True)
    net_sent_max = models.BigIntegerField(null=True)
    disk_read_max = models.BigIntegerField(null=True)
    disk_written_max = models.BigIntegerField(null=True)
    device_percent_max = models.BigIntegerField(null=True)
    device_mem_bytes_max = models.BigIntegerField(null=True)
    device_activity_max = models.BigIntegerField(null=True)

    class Meta:
        indexes = (models.Index(fields=("at",), condition=Q(span_s=10), name="metric_sample"),)

    def __str__(self) -> str:
        return f"{self.kernel_id} at {self.at}"
