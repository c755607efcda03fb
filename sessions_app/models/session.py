"""Compute sessions, their history and their mounts."""

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Case, F, Q, When
from django.db.models.functions import Least

from accounts.core.limits import HIGHEST_PRIORITY
from accounts.models import Domain, KeyPair, Project
from agents.models import Agent, ResourceGroup
from agents.models import SessionType as SessionType
from common import clock
from common.db.fields import StoredMessageField
from common.values.resources import CPU, MEM, ResourceSlots
from images.models import ContainerImage
from sessions_app.core.device_request import DevicePart
from sessions_app.core.placement import Gang, PlacementRule
from sessions_app.core.queue_options import LOWEST_PRIORITY, Hold
from sessions_app.core.states import LAUNCHING, LIVE, TERMINAL, Status
from sessions_app.models.array import SessionArray
from sessions_app.models.kernel import Kernel
from sessions_app.models.preemption import Preemption, PreemptionOutcome
from vfolders.models import VFolder

_IS_TERMINAL = Q(status__in=sorted(status.value for status in TERMINAL))
# Columns that list rows show; any other column costs one query per access.
_SHOWN_IN_ROWS = (
    "name", "type", "status", "status_reason", "status_message", "exit_code", "image_reference", "requested_slots",
    "kernel_count", "total_slots", "queue_position", "stops_at", "held_for", "deadline_at", "timeout_s", "lifetime_s", "outcome_reason", "retry_count", "max_retries", "requeues", "may_change_devices", "host_label", "created_at",
    "ended_at", "priority", "started_at", "status_changed_at", "resource_group__use_grace_s", "resource_group__use_rule", "resource_group__min_cpu_percent",
    "resource_group__min_mem_percent", "resource_group__min_device_percent", "resource_group__min_device_mem_percent", "idle__use", "idle__thresholds", "idle__use_grace_s", "idle__interacted_at", "idle__interaction",
    "idle__measured_from", "idle__gap", "idle__max_idle_s", "idle__low_since", "idle__kept_until", "idle__warned_of",
    "idle__last_told_at", "array_index", "array__name", "array__count", "project__name", "owner__email", "image__title", "image__reference", "image__apps", "resource_group__name",
)  # fmt: skip
_KERNEL_IN_ROWS = ("session", "role", "index", "rank", "requested_slots", "memory_kills", "memory_killed_at", "memory_peak_bytes", "agent__name")  # fmt: skip


class ComputeSessionQuerySet(models.QuerySet["ComputeSession"]):
    def live(self) -> "ComputeSessionQuerySet":
        return self.filter(ended_at=None)

    def waiting(self) -> "ComputeSessionQuerySet":
        """Return PENDING sessions, with the condition of the index that covers them."""
        return self.filter(status=Status.PENDING.value, started_at=None, ended_at=None)

    def ended(self) -> "ComputeSessionQuerySet":
        return self.filter(status__in=TERMINAL)

    def at_work_first(self) -> "ComputeSessionQuerySet":
        """Order by running, launching, waiting (in queue order), ending; newest first within each."""
        is_now = (Q(status=Status.RUNNING), Q(status__in=LAUNCHING), Q(status=Status.PENDING))
        order = Case(*(When(each, then=place) for place, each in enumerate(is_now)), default=len(is_now))
        return self.order_by(order, F("queue_position").asc(nulls_last=True), "-created_at", "-id")

    def with_parts(self) -> "ComputeSessionQuerySet":
        """Load all that lists, details and launches need. 4 queries, any number of sessions."""
        return self.with_kernels().prefetch_related("mounts__folder")

    def with_kernels(self) -> "ComputeSessionQuerySet":
        """Load containers, their machines and all related objects.

        2 queries, any number of sessions.
        """
        kernels = models.Prefetch("kernels", Kernel.objects.select_related("agent"))
        related = (
            "project", "domain", "owner", "image", "resource_group", "array", "setup", "idle", "callback",
        )  # fmt: skip
        joined = self.with_preemption().select_related(*related, "designated_agent")
        return joined.prefetch_related(kernels)

    def with_preemption(self) -> "ComputeSessionQuerySet":
        """Annotate `preempted_at`: end by an open preemption, or None. No additional query."""
        notices = Preemption.objects.filter(session=models.OuterRef("pk"), outcome=PreemptionOutcome.OPEN)
        return self.annotate(preempted_at=models.Subquery(notices.values("ends_at")[:1]))

    def for_rows(self) -> "ComputeSessionQuerySet":
        """Load only what a list row shows. 2 queries, any number of sessions."""
        kernels = Kernel.objects.select_related("agent").only(*_KERNEL_IN_ROWS).order_by("rank")
        related = ("project", "owner", "image", "resource_group", "array", "idle")
        prefetched = (
            self.with_preemption()
            .select_related(*related)
            .prefetch_related(models.Prefetch("kernels", kernels))
        )
        return prefetched.only(*_SHOWN_IN_ROWS)


class ComputeSession(models.Model):
    """Compute session of a user: one or many containers.

    `lifecycle/transitions.py` is the only writer of `status`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=64)
    type = models.CharField(max_length=12, choices=SessionType)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, db_index=False, related_name="sessions"
    )
    project = models.ForeignKey(Project, on_delete=models.PROTECT, db_index=False, related_name="sessions")
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="sessions")
    # Keypair of the request. The session counts against its policy even after it is revoked.
    keypair = models.ForeignKey(
        KeyPair,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        editable=False,
        related_name="+",
    )
    resource_group = models.ForeignKey(ResourceGroup, on_delete=models.PROTECT, related_name="sessions")
    array = models.ForeignKey(
        SessionArray,
        on_delete=models.PROTECT,
        null=True,
        editable=False,
        related_name="elements",
        db_index=False,
    )
    array_index = models.PositiveIntegerField(null=True, editable=False)
    image = models.ForeignKey(ContainerImage, on_delete=models.PROTECT, related_name="sessions")
    image_reference = models.CharField(max_length=255)

    status = models.CharField(max_length=12, default=Status.PENDING.value, editable=False)
    status_reason = models.CharField(max_length=40, default="enqueued", editable=False)
    status_message = StoredMessageField(editable=False)
    status_changed_at = models.DateTimeField(default=clock.now, editable=False)
    deadline_at = models.DateTimeField(null=True, editable=False)
    stops_at = models.DateTimeField(
        null=True, editable=False, help_text="Time of the scheduled stop; null: none."
    )
    stops_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, db_index=False, null=True, editable=False, related_name="+"
    )
    outcome = models.CharField(max_length=12, blank=True, editable=False)
    outcome_reason = models.CharField(max_length=40, blank=True, editable=False)
    queue_position = models.PositiveIntegerField(null=True, editable=False)

    requested_slots = models.JSONField(help_text="Per kernel, base units.")
    kernel_count = models.PositiveSmallIntegerField(default=1)
    total_slots = models.JSONField(
        null=True,
        editable=False,
        help_text="Of all containers, if they are unlike; null: kernel_count times requested_slots.",
    )
    shm_bytes = models.BigIntegerField()
    environment = models.JSONField(default=dict)
    personal_files = models.BooleanField(
        default=True, help_text="true if the session gets the owner's dotfiles and start-up script."
    )
    command = models.TextField(blank=True)
    timeout_s = models.PositiveIntegerField(null=True)
    lifetime_s = models.PositiveIntegerField(
        null=True, editable=False, help_text="What its policies allowed when it was asked for."
    )
    max_runtime_s = models.GeneratedField(
        expression=Least("timeout_s", "lifetime_s"),
        output_field=models.PositiveIntegerField(null=True),
        db_persist=True,
    )
    priority = models.SmallIntegerField(
        default=0, help_text="Sessions with a higher priority are placed first."
    )
    start_at = models.DateTimeField(null=True, help_text="Earliest start; null: at once.")
    pending_timeout_s = models.PositiveIntegerField(
        null=True, help_text="Seconds that it waits for an agent before it is cancelled."
    )
    held_for = models.CharField(
        max_length=20,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="Before it queues (`holds`).",
    )
    max_retries = models.PositiveSmallIntegerField(default=0, db_default=0)
    retry_count = models.PositiveSmallIntegerField(default=0, db_default=0, editable=False)
    requeues = models.BooleanField(
        default=False,
        db_default=False,
        help_text="true if the session is queued again when its agent is lost.",
    )
    may_change_devices = models.BooleanField(
        default=True,
        db_default=True,
        editable=False,
        help_text="false once it was queued again because a machine could not give it its accelerators.",
    )
    is_awaited = models.BooleanField(
        default=False, db_default=False, editable=False, help_text="Others start after it."
    )
    eligible_at = models.DateTimeField(
        null=True, editable=False, help_text="When it was let into the queue, if not when it was asked for."
    )
    designated_agent = models.ForeignKey(
        Agent,
        on_delete=models.PROTECT,
        null=True,
        db_index=False,
        related_name="designating_sessions",
        help_text="Where it must run, or is to run first.",
    )
    may_run_elsewhere = models.BooleanField(
        default=False,
        db_default=False,
        help_text="true if other agents may run the session when the designated agent has no capacity.",
    )
    device_model = models.CharField(
        max_length=120, default="", db_default="", help_text="Model of the accelerators; empty: any."
    )
    device_mem_bytes = models.BigIntegerField(
        default=0, db_default=0, help_text="Least memory of each accelerator; 0: any."
    )
    device_api_version = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Least CUDA or ROCm version of the driver, as 12040; 0: any."
    )
    device_share_mem_bytes = models.BigIntegerField(
        default=0, db_default=0, help_text="Memory of its part of a device; 0: not limited by an amount."
    )
    device_share_cores = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Percent of compute of its part of a device; 0: not limited."
    )
    linked_devices = models.BooleanField(
        default=False, db_default=False, help_text="true if all its devices must be linked with each other."
    )
    isolation = models.CharField(
        max_length=12,
        default="",
        db_default="",
        help_text="Least isolation of a part: cooperative, server, driver or hardware; empty: any.",
    )
    storage_hosts = ArrayField(
        models.CharField(max_length=64),
        default=list,
        db_default=[],
        help_text="Names of the storage hosts of its folders, which its machine must reach.",
    )
    gang = models.CharField(
        max_length=12,
        default=Gang.ANYWHERE.value,
        db_default=Gang.ANYWHERE.value,
        help_text="Where its containers may be.",
    )
    cluster_roles = models.JSONField(
        default=list, db_default=[], editable=False, help_text="Roles beside main1, as they were requested."
    )
    placement_group = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text="Placement group, among the owner's sessions in the project; empty: the elements of "
        "the array.",
    )
    placement_rule = models.CharField(
        max_length=16,
        blank=True,
        default="",
        db_default="",
        help_text="Rule by which the session is placed relative to its placement group.",
    )
    exit_code = models.IntegerField(null=True, editable=False)

    host_label = models.CharField(max_length=20, editable=False)
    app_token = models.CharField(max_length=64, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)

    objects: ClassVar[Any] = ComputeSessionQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.CheckConstraint(
                condition=Q(status__in=[status.value for status in Status]), name="session_status_is_known"
            ),
            models.CheckConstraint(
                condition=(_IS_TERMINAL & Q(ended_at__isnull=False))
                | (~_IS_TERMINAL & Q(ended_at__isnull=True)),
                name="session_has_ended_at_iff_terminal",
            ),
            models.CheckConstraint(
                condition=_IS_TERMINAL | Q(deadline_at__isnull=False),
                name="live_session_has_deadline",
            ),
            models.CheckConstraint(
                condition=Q(priority__range=(LOWEST_PRIORITY, HIGHEST_PRIORITY)),
                name="session_priority_in_range",
            ),
            models.CheckConstraint(
                condition=Q(held_for__in=[hold.value for hold in Hold]), name="session_hold_is_known"
            ),
            models.CheckConstraint(
                condition=Q(retry_count__lte=F("max_retries")), name="session_retries_are_counted"
            ),
            models.CheckConstraint(
                condition=Q(may_run_elsewhere=False) | Q(designated_agent__isnull=False),
                name="session_elsewhere_than_named",
            ),
            models.CheckConstraint(
                condition=Q(array=None, array_index=None)
                | Q(array__isnull=False, array_index__isnull=False, type=SessionType.BATCH),
                name="element_has_its_index",
            ),
            models.CheckConstraint(
                condition=Q(gang__in=[gang.value for gang in Gang]), name="session_gang_is_known"
            ),
            models.CheckConstraint(
                condition=Q(placement_group="", placement_rule="")
                | (
                    Q(placement_rule__in=[rule.value for rule in PlacementRule])
                    & (~Q(placement_group="") | Q(array__isnull=False))
                ),
                name="session_placement_rule_of_a_group",
            ),
            models.UniqueConstraint(
                fields=("array", "array_index"), condition=Q(array__isnull=False), name="element_once"
            ),
            models.UniqueConstraint(
                fields=("owner", "name"),
                condition=Q(ended_at=None),
                name="live_session_name_of_owner",
            ),
            models.UniqueConstraint(fields=("host_label",), name="host_label_once"),
            models.CheckConstraint(
                condition=~Q(status="PENDING") | Q(started_at=None), name="waiting_session_has_not_started"
            ),
        )
        # No index or index condition uses a column that each transition writes (status, reason,
        # deadline): PostgreSQL then updates only the row, not every index of the table (ADR 0043).
        indexes = (
            models.Index(
                fields=("resource_group", "created_at"),
                condition=Q(started_at=None, ended_at=None),
                name="session_unstarted",
            ),
            models.Index(
                fields=("start_at",),
                condition=Q(held_for="start_time", ended_at=None),
                name="session_held_until",
            ),
            models.Index(
                fields=("created_at",),
                condition=Q(held_for="dependency", ended_at=None),
                name="session_held_after",
            ),
            models.Index(
                fields=("created_at",),
                condition=Q(held_for="group_closed", ended_at=None),
                name="session_held_outside",
            ),
            models.Index(
                fields=("array", "array_index"),
                condition=Q(held_for="array_limit", ended_at=None),
                name="session_array_held",
            ),
            models.Index(
                fields=("created_at",),
                condition=Q(held_for="image_missing", ended_at=None),
                name="session_held_for_image",
            ),
            models.Index(
                fields=("created_at",),
                condition=Q(ended_at=None) & ~Q(placement_rule=""),
                name="session_placed_beside",
            ),
            models.Index(fields=("keypair",), condition=~Q(keypair=None), name="session_keypair"),
            models.Index(fields=("stops_by",), condition=~Q(stops_by=None), name="session_stops_by"),
            models.Index(
                fields=("started_at",), condition=Q(started_at__isnull=False), name="session_started"
            ),
            models.Index(
                fields=("stops_at",),
                condition=Q(stops_at__isnull=False, ended_at__isnull=True),
                name="session_stops",
            ),
            models.Index(fields=("-created_at", "-id"), include=("ended_at", "name"), name="session_list"),
            models.Index(fields=("-ended_at", "-id"), condition=~Q(ended_at=None), name="session_ended"),
            models.Index(fields=("owner", "-created_at"), name="session_owner"),
            models.Index(fields=("project", "-created_at"), name="session_project"),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def slots(self) -> ResourceSlots:
        """Requested slots of one kernel, in base units."""
        return ResourceSlots(self.requested_slots)

    @property
    def slots_of_all(self) -> ResourceSlots:
        """Requested slots of all containers together, in base units."""
        if self.total_slots is not None:
            return ResourceSlots(self.total_slots)
        return self.slots * self.kernel_count

    @property
    def device_part(self) -> DevicePart | None:
        """Part of a device, if it was requested by memory or compute."""
        if not (self.device_share_mem_bytes or self.device_share_cores):
            return None
        slot = next(name for name in self.requested_slots if name not in (CPU, MEM))
        return DevicePart(slot, self.device_share_mem_bytes, self.device_share_cores)

    @property
    def is_live(self) -> bool:
        return Status(self.status) in LIVE

    @property
    def is_running(self) -> bool:
        return self.status == Status.RUNNING


class SessionTransition(models.Model):
    """One change of a session's status, with its reason. Kept as history."""

    session = models.ForeignKey(ComputeSession, on_delete=models.CASCADE, related_name="transitions")
    from_status = models.CharField(max_length=12, blank=True)
    to_status = models.CharField(max_length=12)
    reason = models.CharField(max_length=40)
    message = StoredMessageField()
    actor_label = models.CharField(max_length=254)
    happened_at = models.DateTimeField()

    class Meta:
        ordering = ("happened_at", "id")

    def __str__(self) -> str:
        return f"{self.from_status} → {self.to_status}"


class SessionMount(models.Model):
    """Mount of one folder in one session."""

    session = models.ForeignKey(ComputeSession, on_delete=models.CASCADE, related_name="mounts")
    folder = models.ForeignKey(VFolder, on_delete=models.SET_NULL, null=True, related_name="mounts")
    folder_name = models.CharField(max_length=64)
    subpath = models.CharField(
        max_length=1024,
        blank=True,
        default="",
        db_default="",
        help_text="Directory in the folder that is mounted; empty: all of it.",
    )
    path = models.CharField(max_length=255)
    is_readonly = models.BooleanField(default=False)
    is_automatic = models.BooleanField(
        default=False, db_default=False, help_text="Mounted because of the folder's mode, not by the request."
    )

    class Meta:
        ordering = ("path",)
        constraints = (models.UniqueConstraint(fields=("session", "path"), name="mount_path_in_session"),)

    def __str__(self) -> str:
        return f"{self.reference} at {self.path}"

    @property
    def reference(self) -> str:
        """Name of the folder, with the path in it: data/raw."""
        return f"{self.folder_name}/{self.subpath}" if self.subpath else self.folder_name
