"""Create the tables, functions and triggers of the app as the migrations that this one replaces
leave them. The next one removes columns that a migration of the scheduler reads, which needs these
tables: hence it does not replace that one.
"""

from decimal import Decimal
from pathlib import Path

import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.contrib.postgres.fields.ranges
import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import agents.models.resource_group
import common.clock
import common.db.fields

SQL = Path(__file__).with_name("sql")


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_squashed_0031_purged_people_hold_nothing"),
        ("accounts", "__first__"),
    ]

    operations = [
        migrations.CreateModel(
            name="ResourceGroup",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        max_length=64,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$",
                                "Use lower-case letters, digits, dots, dashes and underscores; begin and end with a letter or digit.",
                            )
                        ],
                    ),
                ),
                ("description", models.CharField(blank=True, max_length=500)),
                ("is_default", models.BooleanField(default=False)),
                (
                    "is_active",
                    models.BooleanField(
                        default=True, help_text="A paused group accepts requests, but starts no sessions."
                    ),
                ),
                (
                    "is_public",
                    models.BooleanField(
                        default=True,
                        help_text="Everybody may use the group; otherwise only holders of a grant.",
                    ),
                ),
                (
                    "strategy",
                    models.CharField(
                        choices=[
                            ("concentrated", "Concentrated"),
                            ("dispersed", "Dispersed"),
                            ("round_robin", "Round-robin"),
                        ],
                        default="concentrated",
                        max_length=20,
                    ),
                ),
                (
                    "scheduler",
                    models.CharField(
                        choices=[
                            ("fifo", "First in, first out"),
                            ("lifo", "Last in, first out"),
                            ("drf", "Dominant resource fairness"),
                            ("fair_share", "Fair share"),
                        ],
                        default="fifo",
                        max_length=20,
                    ),
                ),
                (
                    "ageing_s",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Seconds of waiting that raise a session's priority by one. Empty: no ageing.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(1)],
                        verbose_name="Ageing",
                    ),
                ),
                (
                    "patience_s",
                    models.PositiveIntegerField(
                        default=600,
                        help_text="Seconds of waiting after which capacity is reserved for the first session that does not fit. If its start can be predicted, capacity is reserved at once.",
                        verbose_name="Wait before a backfill reservation",
                    ),
                ),
                (
                    "usage_half_life_s",
                    models.PositiveIntegerField(
                        default=604800,
                        help_text="Seconds after which past use counts half, for fair share only.",
                        validators=[
                            django.core.validators.MinValueValidator(600),
                            django.core.validators.MaxValueValidator(31622400),
                        ],
                        verbose_name="Fair-share half-life",
                    ),
                ),
                (
                    "preemptible_priority",
                    models.SmallIntegerField(
                        blank=True,
                        help_text="Sessions of this priority or lower are preempted if a session of higher priority does not fit. Empty: no preemption.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(-100),
                            django.core.validators.MaxValueValidator(100),
                        ],
                        verbose_name="Preemption up to priority",
                    ),
                ),
                (
                    "preemption_after_s",
                    models.PositiveIntegerField(
                        default=600,
                        help_text="Seconds that a session runs at least before it can be preempted.",
                        verbose_name="Minimum run time before preemption",
                    ),
                ),
                (
                    "preemption_grace_s",
                    models.PositiveIntegerField(
                        default=60,
                        help_text="Seconds between the warning of the owner and the preemption.",
                        validators=[django.core.validators.MaxValueValidator(3600)],
                        verbose_name="Warning before preemption",
                    ),
                ),
                (
                    "session_types",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[("interactive", "Interactive"), ("batch", "Batch")], max_length=12
                        ),
                        default=agents.models.resource_group.every_session_type,
                        help_text="Types of sessions that it accepts.",
                        size=None,
                    ),
                ),
                (
                    "max_session_slots",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        help_text="Maximum that one session may request; slots that are not named are unlimited.",
                    ),
                ),
                (
                    "limits",
                    models.JSONField(
                        blank=True,
                        default=list,
                        help_text="Limits for all sessions together and for each user, always or at certain hours.",
                    ),
                ),
                (
                    "max_lifetime_s",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Seconds that a session runs at most.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(60)],
                        verbose_name="Lifetime",
                    ),
                ),
                (
                    "max_idle_s",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Seconds without user activity after which an interactive session ends.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(60)],
                        verbose_name="Idle timeout",
                    ),
                ),
                (
                    "min_cpu_percent",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        help_text="Percent of the allocation of a session. Empty: as policies say.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(100),
                        ],
                        verbose_name="Minimum CPU utilization",
                    ),
                ),
                (
                    "min_mem_percent",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        help_text="Percent of the allocation of a session. Empty: as policies say.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(100),
                        ],
                        verbose_name="Minimum memory utilization",
                    ),
                ),
                (
                    "min_device_percent",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        help_text="Percent of the allocation of a session. Empty: as policies say.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(100),
                        ],
                        verbose_name="Minimum accelerator utilization",
                    ),
                ),
                (
                    "min_device_mem_percent",
                    models.PositiveSmallIntegerField(
                        blank=True,
                        help_text="Percent of the allocation of a session. Empty: as policies say.",
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(100),
                        ],
                        verbose_name="Minimum accelerator memory utilization",
                    ),
                ),
                (
                    "use_rule",
                    models.CharField(
                        choices=[("all", "all of them are below"), ("any", "any of them is below")],
                        default="all",
                        max_length=3,
                        verbose_name="Utilization is low if",
                    ),
                ),
                (
                    "use_window_s",
                    models.PositiveIntegerField(
                        default=3600,
                        help_text="Period in seconds over which utilization is averaged.",
                        validators=[
                            django.core.validators.MinValueValidator(600),
                            django.core.validators.MaxValueValidator(86400),
                        ],
                        verbose_name="Window",
                    ),
                ),
                (
                    "use_grace_s",
                    models.PositiveIntegerField(
                        default=3600,
                        help_text="Seconds between the detection of low utilization and the end of the session.",
                        validators=[django.core.validators.MinValueValidator(600)],
                        verbose_name="Grace",
                    ),
                ),
                (
                    "ends_idle_batch",
                    models.BooleanField(
                        default=False,
                        help_text="Batch sessions end for low utilization as well; no user activity is expected in them.",
                        verbose_name="Batch too",
                    ),
                ),
                (
                    "max_extensions",
                    models.PositiveIntegerField(
                        default=3,
                        help_text="Number of times that a session may be extended.",
                        verbose_name="Extensions",
                    ),
                ),
                (
                    "extension_s",
                    models.PositiveIntegerField(
                        default=3600,
                        help_text="Seconds by which one extension postpones the end.",
                        verbose_name="Length of an extension",
                    ),
                ),
                (
                    "cpu_overcommit",
                    models.DecimalField(
                        db_default=Decimal("1"),
                        decimal_places=2,
                        default=Decimal("1"),
                        help_text="So many times the cores of a machine are allocated to all sessions together. One session gets no more than the machine has.",
                        max_digits=4,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10),
                        ],
                        verbose_name="CPU over-commit",
                    ),
                ),
                (
                    "mem_overcommit",
                    models.DecimalField(
                        db_default=Decimal("1"),
                        decimal_places=2,
                        default=Decimal("1"),
                        help_text="Like CPU over-commit, for memory. Where sessions then use more than there is, some of them are killed.",
                        max_digits=4,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10),
                        ],
                        verbose_name="Memory over-commit",
                    ),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
                ("deleted_at", models.DateTimeField(editable=False, null=True)),
                ("epoch", models.BigIntegerField(default=0, editable=False)),
                (
                    "last_agent_id",
                    models.BigIntegerField(
                        default=0,
                        editable=False,
                        help_text="That was given a container; behind it round-robin goes on.",
                    ),
                ),
                (
                    "head_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(),
                        default=list,
                        editable=False,
                        help_text="Sessions that waited and for which room was kept, in the order in which they are to be tried first.",
                        size=None,
                    ),
                ),
                (
                    "gathered",
                    models.JSONField(
                        default=list,
                        editable=False,
                        help_text="Where room is gathered for sessions of which nobody knows when they find some, as the last plan chose.",
                    ),
                ),
            ],
            options={
                "ordering": ("name",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("deleted_at", None)),
                        fields=("name",),
                        name="resource_group_name_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("is_default", True)),
                        fields=("is_default",),
                        name="one_default_resource_group",
                        violation_error_message="There is a default resource group already.",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("strategy__in", ["concentrated", "dispersed", "round_robin"])),
                        name="resource_group_strategy_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("scheduler__in", ["fifo", "lifo", "drf", "fair_share"])),
                        name="resource_group_scheduler_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("use_rule__in", ["all", "any"])),
                        name="resource_group_use_rule_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("max_lifetime_s", None), ("max_lifetime_s__gt", 0), _connector="OR"),
                            models.Q(("max_idle_s", None), ("max_idle_s__gt", 0), _connector="OR"),
                        ),
                        name="resource_group_ends_take_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("ageing_s__isnull", True), ("ageing_s__gt", 0), _connector="OR"),
                        name="resource_group_ageing_takes_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("usage_half_life_s__gt", 0)),
                        name="resource_group_use_halves_in_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("session_types__contained_by", ["interactive", "batch"]),
                            ("session_types__len__gt", 0),
                        ),
                        name="resource_group_takes_known_types",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("cpu_overcommit__gte", 1),
                            ("cpu_overcommit__lte", 10),
                            ("mem_overcommit__gte", 1),
                            ("mem_overcommit__lte", 10),
                        ),
                        name="resource_group_overcommits_up_to_ten_times",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("deleted_at", None),
                            models.Q(("is_active", False), ("is_default", False)),
                            _connector="OR",
                        ),
                        name="resource_group_deleted_is_idle",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Reservation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="reservations",
                        to="agents.resourcegroup",
                    ),
                ),
                ("name", common.db.fields.NameField(max_length=64)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                (
                    "domain",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.domain",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.project",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "ordering": ("starts_at", "id"),
                "indexes": [models.Index(fields=["group", "ends_at"], name="reservation_current")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("ends_at__gt", models.F("starts_at"))),
                        name="reservation_takes_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("domain", None), ("project", None)),
                            models.Q(("domain", None), ("user", None)),
                            models.Q(("project", None), ("user", None)),
                            _connector="OR",
                        ),
                        name="reservation_is_for_one_at_most",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="GroupGrant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="grants",
                        to="agents.resourcegroup",
                    ),
                ),
                (
                    "domain",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.domain",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.project",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "ordering": ("id",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("domain__isnull", False), ("project", None), ("user", None)),
                            models.Q(("domain", None), ("project__isnull", False), ("user", None)),
                            models.Q(("domain", None), ("project", None), ("user__isnull", False)),
                            _connector="OR",
                        ),
                        name="group_grant_is_to_one",
                    ),
                    models.UniqueConstraint(fields=("group", "domain"), name="group_grant_once_to_domain"),
                    models.UniqueConstraint(fields=("group", "project"), name="group_grant_once_to_project"),
                    models.UniqueConstraint(fields=("group", "user"), name="group_grant_once_to_user"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Agent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        max_length=64,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$",
                                "Use lower-case letters, digits, dots, dashes and underscores; begin and end with a letter or digit.",
                            )
                        ],
                    ),
                ),
                ("address", models.CharField(max_length=255)),
                ("tls_directory", models.CharField(blank=True, max_length=255)),
                (
                    "resource_group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="agents",
                        to="agents.resourcegroup",
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("connected", "Connected"),
                            ("lost", "Lost"),
                            ("draining", "Draining"),
                            ("maintenance", "Maintenance"),
                            ("retired", "Retired"),
                        ],
                        default="connected",
                        editable=False,
                        max_length=20,
                    ),
                ),
                ("state_before_loss", models.CharField(default="connected", editable=False, max_length=20)),
                ("state_changed_at", models.DateTimeField(default=common.clock.now, editable=False)),
                ("architecture", models.CharField(editable=False, max_length=20)),
                (
                    "device_model",
                    models.CharField(blank=True, db_default="", default="", editable=False, max_length=120),
                ),
                ("engine_id", models.CharField(editable=False, max_length=128)),
                ("engine_version", models.CharField(editable=False, max_length=60)),
                ("heartbeat_at", models.DateTimeField(default=common.clock.now, editable=False)),
                ("last_error", models.CharField(blank=True, editable=False, max_length=500)),
                ("data", models.JSONField(blank=True, default=dict, editable=False)),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "ordering": ("name",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["connected", "lost", "draining", "maintenance", "retired"])
                        ),
                        name="agent_state_is_known",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "retired"), _negated=True),
                        fields=("address",),
                        name="agent_address_once",
                        violation_error_message="Another agent has this address.",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "retired"), _negated=True),
                        fields=("engine_id",),
                        name="agent_engine_once",
                        violation_error_message="The engine at this address belongs to another agent already.",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AgentDevice",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="devices", to="agents.agent"
                    ),
                ),
                ("slot_name", models.CharField(max_length=32)),
                (
                    "device_id",
                    models.CharField(
                        help_text="Id of the device given by the vendor; it survives restarts.",
                        max_length=128,
                    ),
                ),
                ("index", models.PositiveIntegerField()),
                ("model", models.CharField(blank=True, max_length=120)),
                ("mem_bytes", models.BigIntegerField(default=0)),
                ("numa_node", models.IntegerField(null=True)),
                ("link_group", models.IntegerField(null=True)),
                ("is_present", models.BooleanField(db_default=True, default=True)),
                ("occupied", models.IntegerField(db_default=0, default=0, editable=False)),
            ],
            options={
                "ordering": ("agent_id", "slot_name", "index"),
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "device_id"), name="agent_device_once"),
                    models.CheckConstraint(
                        condition=models.Q(("occupied__gte", 0), ("occupied__lte", 1000)),
                        name="agent_device_not_overfull",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AgentImage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="images", to="agents.agent"
                    ),
                ),
                ("reference", models.CharField(max_length=255)),
                ("image_id", models.CharField(max_length=80)),
                ("size_bytes", models.BigIntegerField(default=0)),
            ],
            options={
                "ordering": ("agent_id", "reference"),
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "reference"), name="agent_image_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="AgentSlot",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="slots", to="agents.agent"
                    ),
                ),
                ("slot_name", models.CharField(max_length=32)),
                ("capacity", models.BigIntegerField()),
                ("surplus", models.BigIntegerField(db_default=0, default=0, editable=False)),
                ("occupied", models.BigIntegerField(default=0, editable=False)),
            ],
            options={
                "ordering": ("agent_id", "slot_name"),
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "slot_name"), name="agent_slot_once"),
                    models.CheckConstraint(
                        condition=models.Q(("occupied__gte", 0), ("surplus__gte", 0)),
                        name="agent_slot_amounts_not_negative",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ReservedAgent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "reservation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="machines",
                        to="agents.reservation",
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="reservations",
                        to="agents.agent",
                    ),
                ),
                ("during", django.contrib.postgres.fields.ranges.DateTimeRangeField()),
            ],
            options={
                "ordering": ("id",),
                "constraints": [
                    django.contrib.postgres.constraints.ExclusionConstraint(
                        expressions=[
                            (
                                models.Func(
                                    models.F("agent"),
                                    models.F("agent"),
                                    models.Value("[]"),
                                    function="int8range",
                                ),
                                "&&",
                            ),
                            (models.F("during"), "&&"),
                        ],
                        name="agent_reserved_once_at_a_time",
                    )
                ],
            },
        ),
        migrations.RunSQL((SQL / "agent_slots.sql").read_text()),
    ]
