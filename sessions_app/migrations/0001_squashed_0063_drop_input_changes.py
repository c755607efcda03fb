"""Create the tables, functions and triggers of the app as the migrations that this one replaces
leave them.
"""

import uuid
from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import common.clock
import common.db.fields

SQL = Path(__file__).with_name("sql")
# Existing installations have these names since a column was renamed, and this text of a check since a
# column may be NULL, which does not change what it means.
KEPT = """
ALTER TABLE sessions_app_applogin
    RENAME CONSTRAINT sessions_app_applogin_secret_hash_key TO sessions_app_applogin_cookie_hash_key;
ALTER TABLE sessions_app_applogin
    RENAME CONSTRAINT sessions_app_applogin_secret_hash_not_null TO sessions_app_applogin_cookie_hash_not_null;
ALTER INDEX sessions_app_applogin_secret_hash_9bc94553_like
    RENAME TO sessions_app_applogin_cookie_hash_59d9efec_like;
ALTER TABLE sessions_app_sessiondependency
    DROP CONSTRAINT dependency_on_another,
    ADD CONSTRAINT dependency_on_another CHECK (NOT (session_id = after_id));
"""


def keep_as_it_is(apps, editor):
    editor.deferred_sql.append(KEPT)  # the index is made by a statement that is deferred, too


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_squashed_0031_purged_people_hold_nothing"),
        ("accounts", "__first__"),
        ("agents", "0001_squashed_0022_standard_words"),
        ("images", "0002_readonly_root"),
        ("vfolders", "0001_squashed_0004_names_in_form_c"),
    ]

    operations = [
        migrations.CreateModel(
            name="CallbackSecret",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="callback_secret",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("salt", models.CharField(editable=False, max_length=64)),
                ("made_at", models.DateTimeField(default=common.clock.now)),
            ],
        ),
        migrations.CreateModel(
            name="SessionArray",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(max_length=64)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="arrays",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="arrays",
                        to="accounts.project",
                    ),
                ),
                (
                    "domain",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="arrays",
                        to="accounts.domain",
                    ),
                ),
                ("spec", models.CharField(help_text="Indices as requested, e.g. 1-100%10.", max_length=1000)),
                ("count", models.PositiveSmallIntegerField(help_text="Number of elements.")),
                (
                    "most_at_once",
                    models.PositiveSmallIntegerField(
                        help_text="Maximum number of elements that wait for an agent or run at a time; null: unlimited.",
                        null=True,
                    ),
                ),
                (
                    "is_awaited",
                    models.BooleanField(
                        db_default=False, default=False, editable=False, help_text="Others start after it."
                    ),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now)),
            ],
            options={
                "ordering": ("-created_at", "-id"),
                "indexes": [
                    models.Index(fields=["owner", "-created_at"], name="array_owner"),
                    models.Index(fields=["project", "-created_at"], name="array_project"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("count__range", (1, 1000))), name="array_has_elements"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("most_at_once", None), ("most_at_once__gte", 1), _connector="OR"),
                        name="array_lets_some_run",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ComputeSession",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(max_length=64)),
                (
                    "type",
                    models.CharField(
                        choices=[("interactive", "Interactive"), ("batch", "Batch")], max_length=12
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sessions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sessions",
                        to="accounts.project",
                    ),
                ),
                (
                    "domain",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sessions",
                        to="accounts.domain",
                    ),
                ),
                (
                    "keypair",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="accounts.keypair",
                    ),
                ),
                (
                    "resource_group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sessions",
                        to="agents.resourcegroup",
                    ),
                ),
                (
                    "array",
                    models.ForeignKey(
                        db_index=False,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="elements",
                        to="sessions_app.sessionarray",
                    ),
                ),
                ("array_index", models.PositiveIntegerField(editable=False, null=True)),
                (
                    "image",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sessions",
                        to="images.containerimage",
                    ),
                ),
                ("image_reference", models.CharField(max_length=255)),
                ("status", models.CharField(default="PENDING", editable=False, max_length=12)),
                ("status_reason", models.CharField(default="enqueued", editable=False, max_length=40)),
                ("status_message", common.db.fields.SentenceField(editable=False)),
                ("status_changed_at", models.DateTimeField(default=common.clock.now, editable=False)),
                ("deadline_at", models.DateTimeField(editable=False, null=True)),
                (
                    "stops_at",
                    models.DateTimeField(
                        editable=False, help_text="Time of the scheduled stop; null: none.", null=True
                    ),
                ),
                (
                    "stops_by",
                    models.ForeignKey(
                        db_index=False,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("outcome", models.CharField(blank=True, editable=False, max_length=12)),
                ("outcome_reason", models.CharField(blank=True, editable=False, max_length=40)),
                ("queue_position", models.PositiveIntegerField(editable=False, null=True)),
                ("requested_slots", models.JSONField(help_text="Per kernel, base units.")),
                ("kernel_count", models.PositiveSmallIntegerField(default=1)),
                ("shm_bytes", models.BigIntegerField()),
                ("environment", models.JSONField(default=dict)),
                (
                    "personal_files",
                    models.BooleanField(
                        default=True,
                        help_text="true if the session gets the owner's dotfiles and start-up script.",
                    ),
                ),
                ("command", models.TextField(blank=True)),
                ("timeout_s", models.PositiveIntegerField(null=True)),
                (
                    "lifetime_s",
                    models.PositiveIntegerField(
                        editable=False,
                        help_text="What its policies allowed when it was asked for.",
                        null=True,
                    ),
                ),
                (
                    "max_runtime_s",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.functions.comparison.Least("timeout_s", "lifetime_s"),
                        output_field=models.PositiveIntegerField(null=True),
                    ),
                ),
                (
                    "priority",
                    models.SmallIntegerField(
                        default=0, help_text="Sessions with a higher priority are placed first."
                    ),
                ),
                ("start_at", models.DateTimeField(help_text="Earliest start; null: at once.", null=True)),
                (
                    "pending_timeout_s",
                    models.PositiveIntegerField(
                        help_text="Seconds that it waits for an agent before it is cancelled.", null=True
                    ),
                ),
                (
                    "held_for",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        editable=False,
                        help_text="Before it queues (`holds`).",
                        max_length=20,
                    ),
                ),
                ("max_retries", models.PositiveSmallIntegerField(db_default=0, default=0)),
                ("retry_count", models.PositiveSmallIntegerField(db_default=0, default=0, editable=False)),
                (
                    "requeues",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="true if the session is queued again when its agent is lost.",
                    ),
                ),
                (
                    "is_awaited",
                    models.BooleanField(
                        db_default=False, default=False, editable=False, help_text="Others start after it."
                    ),
                ),
                (
                    "eligible_at",
                    models.DateTimeField(
                        editable=False,
                        help_text="When it was let into the queue, if not when it was asked for.",
                        null=True,
                    ),
                ),
                (
                    "designated_agent",
                    models.ForeignKey(
                        db_index=False,
                        help_text="Where it must run, or is to run first.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="designating_sessions",
                        to="agents.agent",
                    ),
                ),
                (
                    "may_run_elsewhere",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="true if other agents may run the session when the designated agent has no capacity.",
                    ),
                ),
                (
                    "device_model",
                    models.CharField(
                        db_default="",
                        default="",
                        help_text="Model of the accelerators; empty: any.",
                        max_length=120,
                    ),
                ),
                (
                    "gang",
                    models.CharField(
                        db_default="anywhere",
                        default="anywhere",
                        help_text="Where its containers may be.",
                        max_length=12,
                    ),
                ),
                (
                    "placement_group",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="Placement group, among the owner's sessions in the project; empty: the elements of the array.",
                        max_length=64,
                    ),
                ),
                (
                    "placement_rule",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="Rule by which the session is placed relative to its placement group.",
                        max_length=16,
                    ),
                ),
                ("exit_code", models.IntegerField(editable=False, null=True)),
                ("host_label", models.CharField(editable=False, max_length=20)),
                ("app_token", models.CharField(editable=False, max_length=64)),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
                ("started_at", models.DateTimeField(editable=False, null=True)),
                ("ended_at", models.DateTimeField(editable=False, null=True)),
            ],
            options={
                "ordering": ("-created_at", "-id"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_at", None), ("started_at", None)),
                        fields=["resource_group", "created_at"],
                        name="session_unstarted",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at", None), ("held_for", "start_time")),
                        fields=["start_at"],
                        name="session_held_until",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at", None), ("held_for", "dependency")),
                        fields=["created_at"],
                        name="session_held_after",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at", None), ("held_for", "group_closed")),
                        fields=["created_at"],
                        name="session_held_outside",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at", None), ("held_for", "array_limit")),
                        fields=["array", "array_index"],
                        name="session_array_held",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at", None), ("held_for", "image_missing")),
                        fields=["created_at"],
                        name="session_held_for_image",
                    ),
                    models.Index(
                        condition=models.Q(
                            ("ended_at", None), models.Q(("placement_rule", ""), _negated=True)
                        ),
                        fields=["created_at"],
                        name="session_placed_beside",
                    ),
                    models.Index(
                        condition=models.Q(("keypair", None), _negated=True),
                        fields=["keypair"],
                        name="session_keypair",
                    ),
                    models.Index(
                        condition=models.Q(("stops_by", None), _negated=True),
                        fields=["stops_by"],
                        name="session_stops_by",
                    ),
                    models.Index(
                        condition=models.Q(("started_at__isnull", False)),
                        fields=["started_at"],
                        name="session_started",
                    ),
                    models.Index(
                        condition=models.Q(("ended_at__isnull", True), ("stops_at__isnull", False)),
                        fields=["stops_at"],
                        name="session_stops",
                    ),
                    models.Index(
                        fields=["-created_at", "-id"], include=("ended_at", "name"), name="session_list"
                    ),
                    models.Index(
                        condition=models.Q(("ended_at", None), _negated=True),
                        fields=["-ended_at", "-id"],
                        name="session_ended",
                    ),
                    models.Index(fields=["owner", "-created_at"], name="session_owner"),
                    models.Index(fields=["project", "-created_at"], name="session_project"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "status__in",
                                [
                                    "PENDING",
                                    "SCHEDULED",
                                    "PREPARING",
                                    "STARTING",
                                    "RUNNING",
                                    "TERMINATING",
                                    "TERMINATED",
                                    "CANCELLED",
                                    "ERROR",
                                ],
                            )
                        ),
                        name="session_status_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("status__in", ["CANCELLED", "ERROR", "TERMINATED"]),
                                ("ended_at__isnull", False),
                            ),
                            models.Q(
                                models.Q(("status__in", ["CANCELLED", "ERROR", "TERMINATED"]), _negated=True),
                                ("ended_at__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="session_has_ended_at_iff_terminal",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("status__in", ["CANCELLED", "ERROR", "TERMINATED"]),
                            ("deadline_at__isnull", False),
                            _connector="OR",
                        ),
                        name="live_session_has_deadline",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("priority__range", (-100, 100))), name="session_priority_in_range"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "held_for__in",
                                [
                                    "",
                                    "start_time",
                                    "dependency",
                                    "group_closed",
                                    "array_limit",
                                    "image_missing",
                                ],
                            )
                        ),
                        name="session_hold_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("retry_count__lte", models.F("max_retries"))),
                        name="session_retries_are_counted",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("may_run_elsewhere", False), ("designated_agent__isnull", False), _connector="OR"
                        ),
                        name="session_elsewhere_than_named",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("array", None), ("array_index", None)),
                            models.Q(
                                ("array__isnull", False), ("array_index__isnull", False), ("type", "batch")
                            ),
                            _connector="OR",
                        ),
                        name="element_has_its_index",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("gang__in", ["anywhere", "one_machine", "spread"])),
                        name="session_gang_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("placement_group", ""), ("placement_rule", "")),
                            models.Q(
                                ("placement_rule__in", ["spread", "pack", "strict_spread", "strict_pack"]),
                                models.Q(
                                    models.Q(("placement_group", ""), _negated=True),
                                    ("array__isnull", False),
                                    _connector="OR",
                                ),
                            ),
                            _connector="OR",
                        ),
                        name="session_placement_rule_of_a_group",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("array__isnull", False)),
                        fields=("array", "array_index"),
                        name="element_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at", None)),
                        fields=("owner", "name"),
                        name="live_session_name_of_owner",
                    ),
                    models.UniqueConstraint(fields=("host_label",), name="host_label_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "PENDING"), _negated=True),
                            ("started_at", None),
                            _connector="OR",
                        ),
                        name="waiting_session_has_not_started",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="GatewayReport",
            fields=[
                ("process", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("reported_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Kernel",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "session",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="kernels",
                        to="sessions_app.computesession",
                    ),
                ),
                ("role", models.CharField(default="main", max_length=20)),
                ("index", models.PositiveSmallIntegerField(default=1)),
                (
                    "agent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="kernels",
                        to="agents.agent",
                    ),
                ),
                ("attempt", models.PositiveSmallIntegerField(default=1)),
                ("container_id", models.CharField(blank=True, max_length=64)),
                ("address", models.GenericIPAddressField(null=True)),
                ("exit_code", models.IntegerField(null=True)),
                (
                    "memory_kills",
                    models.PositiveIntegerField(default=0, help_text="Programs that the kernel ended."),
                ),
                (
                    "memory_killed_at",
                    models.DateTimeField(help_text="The last of them, by the engine's clock.", null=True),
                ),
                ("memory_peak_bytes", models.BigIntegerField(help_text="As of then.", null=True)),
            ],
            options={
                "ordering": ("session", "role", "index"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("session", "role", "index"), name="kernel_name_in_session"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SessionIdle",
            fields=[
                (
                    "session",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="idle",
                        serialize=False,
                        to="sessions_app.computesession",
                    ),
                ),
                ("interacted_at", models.DateTimeField(null=True)),
                (
                    "interaction",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("terminal", "Terminal"),
                            ("command", "Command line"),
                            ("app", "App"),
                            ("program", "Program that computes"),
                            ("notebook", "Notebook kernel that computes"),
                        ],
                        max_length=10,
                    ),
                ),
                ("measured_from", models.DateTimeField(null=True)),
                (
                    "gap",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", ""),
                            ("machine", "its machine does not answer"),
                            ("gateway", "no gateway reports"),
                            ("use", "its machine does not say whether it computes"),
                        ],
                        default="",
                        max_length=10,
                    ),
                ),
                ("max_idle_s", models.PositiveIntegerField(help_text="As last judged.", null=True)),
                (
                    "use_from",
                    models.DateTimeField(help_text="What was used before does not count.", null=True),
                ),
                ("low_since", models.DateTimeField(null=True)),
                (
                    "use",
                    models.JSONField(
                        default=dict, help_text="Percent by name, as last judged; null: not measured."
                    ),
                ),
                (
                    "thresholds",
                    models.JSONField(
                        db_default=[],
                        default=list,
                        help_text="What its group and each of its policies wants, as last judged.",
                    ),
                ),
                (
                    "use_grace_s",
                    models.PositiveIntegerField(
                        help_text="The shortest grace of its policies, as last judged.", null=True
                    ),
                ),
                ("kept_until", models.DateTimeField(null=True)),
                ("extensions", models.PositiveIntegerField(default=0)),
                (
                    "warned_of",
                    models.DateTimeField(help_text="The end that its owner was told of last.", null=True),
                ),
                (
                    "last_told_at",
                    models.DateTimeField(help_text="When, if it was for the last time.", null=True),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AppTicket",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("code_hash", models.CharField(max_length=64, unique=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("login_key", models.CharField(max_length=40)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="app_tickets",
                        to="sessions_app.computesession",
                    ),
                ),
                ("app", models.CharField(max_length=20)),
                ("door_port", models.PositiveIntegerField(default=0, help_text="0: the app's own host.")),
                ("state_hash", models.CharField(max_length=64)),
                ("expires_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name="IdleWatch",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("judged_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("pk", 1)), name="one_idle_watch")],
            },
        ),
        migrations.CreateModel(
            name="KernelUsage",
            fields=[
                (
                    "kernel",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="usage",
                        serialize=False,
                        to="sessions_app.kernel",
                    ),
                ),
                ("at", models.DateTimeField()),
                ("cpu_ns", models.BigIntegerField(null=True)),
                ("net_received_bytes", models.BigIntegerField(null=True)),
                ("net_sent_bytes", models.BigIntegerField(null=True)),
                ("disk_read_bytes", models.BigIntegerField(null=True)),
                ("disk_written_bytes", models.BigIntegerField(null=True)),
                ("device_count", models.PositiveSmallIntegerField(null=True)),
                (
                    "device_milli",
                    models.PositiveIntegerField(
                        help_text="Thousandths of a device, of all together.", null=True
                    ),
                ),
                (
                    "device_mem_total",
                    models.BigIntegerField(help_text="All memory of these devices.", null=True),
                ),
                (
                    "devices_are_own",
                    models.BooleanField(help_text="Nobody else held a part of them.", null=True),
                ),
            ],
        ),
        migrations.CreateModel(
            name="KernelAllocation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kernel",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="allocations",
                        to="sessions_app.kernel",
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="allocations",
                        to="agents.agent",
                    ),
                ),
                ("slot_name", models.CharField(max_length=32)),
                ("amount", models.BigIntegerField()),
                (
                    "devices",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(),
                        db_default=[],
                        default=list,
                        editable=False,
                        size=None,
                    ),
                ),
                (
                    "cpuset",
                    models.CharField(blank=True, db_default="", default="", editable=False, max_length=1024),
                ),
                (
                    "held_since",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), editable=False
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("kernel", "slot_name"), name="allocation_once"),
                    models.CheckConstraint(
                        condition=models.Q(("amount__gt", 0)), name="allocation_is_positive"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="KernelLog",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kernel",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="log",
                        to="sessions_app.kernel",
                    ),
                ),
                ("content_gzip", models.BinaryField()),
                ("index_gzip", models.BinaryField(default=b"")),
                ("size_bytes", models.PositiveIntegerField()),
                ("is_cut", models.BooleanField(default=False)),
                ("attempt", models.PositiveSmallIntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="KernelMetric",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "kernel_id",
                        "span_s",
                        "at",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "kernel",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="metrics",
                        to="sessions_app.kernel",
                    ),
                ),
                ("span_s", models.PositiveSmallIntegerField()),
                ("at", models.DateTimeField()),
                ("cpu_milli", models.BigIntegerField(null=True)),
                ("mem_bytes", models.BigIntegerField(null=True)),
                ("net_received", models.BigIntegerField(null=True)),
                ("net_sent", models.BigIntegerField(null=True)),
                ("disk_read", models.BigIntegerField(null=True)),
                ("disk_written", models.BigIntegerField(null=True)),
                ("device_percent", models.BigIntegerField(null=True)),
                ("device_mem_bytes", models.BigIntegerField(null=True)),
                ("cpu_milli_max", models.BigIntegerField(null=True)),
                ("mem_bytes_max", models.BigIntegerField(null=True)),
                ("net_received_max", models.BigIntegerField(null=True)),
                ("net_sent_max", models.BigIntegerField(null=True)),
                ("disk_read_max", models.BigIntegerField(null=True)),
                ("disk_written_max", models.BigIntegerField(null=True)),
                ("device_percent_max", models.BigIntegerField(null=True)),
                ("device_mem_bytes_max", models.BigIntegerField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("span_s", 10)), fields=["at"], name="metric_sample")
                ],
            },
        ),
        migrations.CreateModel(
            name="Mooring",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="moorings",
                        to="agents.agent",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="moorings",
                        to="sessions_app.computesession",
                    ),
                ),
                ("is_ready", models.BooleanField(default=False)),
                ("made_at", models.DateTimeField(default=common.clock.now)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("session", None)),
                        fields=["agent", "made_at"],
                        name="mooring_free",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("session", "agent"), name="one_mooring_of_session_and_agent"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Preemption",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="preemptions",
                        to="sessions_app.computesession",
                    ),
                ),
                (
                    "by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="preempts",
                        to="sessions_app.computesession",
                    ),
                ),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="agents.agent"
                    ),
                ),
                ("decided_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[("", ""), ("ended", "ended"), ("spared", "spared")],
                        default="",
                        max_length=6,
                    ),
                ),
            ],
            options={
                "ordering": ("-pk",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("outcome", "")),
                        fields=("session",),
                        name="session_leaves_for_one",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("session", models.F("by")), _negated=True),
                        name="preemption_for_another",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("outcome__in", ["", "ended", "spared"])),
                        name="preemption_outcome_is_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PriorityChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="priority_changes",
                        to="sessions_app.computesession",
                    ),
                ),
                ("was", models.SmallIntegerField()),
                ("priority", models.SmallIntegerField()),
                ("actor_label", models.CharField(max_length=254)),
                ("is_by_owner", models.BooleanField()),
                ("happened_at", models.DateTimeField(default=common.clock.now)),
            ],
            options={
                "ordering": ("happened_at", "id"),
            },
        ),
        migrations.CreateModel(
            name="ResourcePreset",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", common.db.fields.NameField(max_length=64)),
                (
                    "sharing",
                    models.CharField(
                        choices=[
                            ("own", "own"),
                            ("project", "project"),
                            ("domain", "domain"),
                            ("everybody", "everybody"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="presets",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="presets",
                        to="accounts.project",
                    ),
                ),
                (
                    "domain",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="presets",
                        to="accounts.domain",
                    ),
                ),
                ("slots", models.JSONField(help_text="By slot, in base units.")),
                ("shm_bytes", models.BigIntegerField(null=True)),
                ("changed_by", models.CharField(editable=False, max_length=254)),
                ("changed_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "ordering": ("name", "pk"),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("sharing", "own"),
                                ("owner__isnull", False),
                                models.Q(("project__isnull", False), _negated=True),
                                models.Q(("domain__isnull", False), _negated=True),
                            ),
                            models.Q(
                                ("sharing", "project"),
                                models.Q(("owner__isnull", False), _negated=True),
                                ("project__isnull", False),
                                models.Q(("domain__isnull", False), _negated=True),
                            ),
                            models.Q(
                                ("sharing", "domain"),
                                models.Q(("owner__isnull", False), _negated=True),
                                models.Q(("project__isnull", False), _negated=True),
                                ("domain__isnull", False),
                            ),
                            models.Q(
                                ("sharing", "everybody"),
                                models.Q(("owner__isnull", False), _negated=True),
                                models.Q(("project__isnull", False), _negated=True),
                                models.Q(("domain__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="preset_has_one_place",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("shm_bytes", None), ("shm_bytes__gt", 0), _connector="OR"),
                        name="preset_shm_is_some",
                    ),
                    models.UniqueConstraint(
                        fields=("sharing", "owner", "project", "domain", "name"),
                        name="preset_name_in_place",
                        nulls_distinct=False,
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SessionDependency",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="dependencies",
                        to="sessions_app.computesession",
                    ),
                ),
                (
                    "after",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="dependents",
                        to="sessions_app.computesession",
                    ),
                ),
                (
                    "after_array",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="dependents",
                        to="sessions_app.sessionarray",
                    ),
                ),
                (
                    "when",
                    models.CharField(
                        choices=[("success", "success"), ("any", "any"), ("failure", "failure")], max_length=8
                    ),
                ),
            ],
            options={
                "ordering": ("pk",),
                "constraints": [
                    models.UniqueConstraint(fields=("session", "after"), name="dependency_once"),
                    models.UniqueConstraint(
                        fields=("session", "after_array"), name="dependency_on_array_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("session", models.F("after")), _negated=True),
                        name="dependency_on_another",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("after", None), ("after_array__isnull", False)),
                            models.Q(("after__isnull", False), ("after_array", None)),
                            _connector="OR",
                        ),
                        name="dependency_on_one",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SessionMount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mounts",
                        to="sessions_app.computesession",
                    ),
                ),
                (
                    "folder",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="mounts",
                        to="vfolders.vfolder",
                    ),
                ),
                ("folder_name", models.CharField(max_length=64)),
                ("path", models.CharField(max_length=255)),
                ("is_readonly", models.BooleanField(default=False)),
            ],
            options={
                "ordering": ("path",),
                "constraints": [
                    models.UniqueConstraint(fields=("session", "path"), name="mount_path_in_session")
                ],
            },
        ),
        migrations.CreateModel(
            name="SessionTemplate",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", common.db.fields.NameField(max_length=64)),
                ("description", models.CharField(blank=True, max_length=300)),
                (
                    "sharing",
                    models.CharField(
                        choices=[
                            ("own", "own"),
                            ("project", "project"),
                            ("domain", "domain"),
                            ("everybody", "everybody"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="session_templates",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="session_templates",
                        to="accounts.project",
                    ),
                ),
                (
                    "domain",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="session_templates",
                        to="accounts.domain",
                    ),
                ),
                ("body", models.JSONField(help_text="As POST /api/v1/sessions/ takes it.")),
                ("changed_by", models.CharField(editable=False, max_length=254)),
                ("changed_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "ordering": ("name", "pk"),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("sharing", "own"),
                                ("owner__isnull", False),
                                models.Q(("project__isnull", False), _negated=True),
                                models.Q(("domain__isnull", False), _negated=True),
                            ),
                            models.Q(
                                ("sharing", "project"),
                                models.Q(("owner__isnull", False), _negated=True),
                                ("project__isnull", False),
                                models.Q(("domain__isnull", False), _negated=True),
                            ),
                            models.Q(
                                ("sharing", "domain"),
                                models.Q(("owner__isnull", False), _negated=True),
                                models.Q(("project__isnull", False), _negated=True),
                                ("domain__isnull", False),
                            ),
                            models.Q(
                                ("sharing", "everybody"),
                                models.Q(("owner__isnull", False), _negated=True),
                                models.Q(("project__isnull", False), _negated=True),
                                models.Q(("domain__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="template_has_one_place",
                    ),
                    models.UniqueConstraint(
                        fields=("sharing", "owner", "project", "domain", "name"),
                        name="template_name_in_place",
                        nulls_distinct=False,
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SessionTransition",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="transitions",
                        to="sessions_app.computesession",
                    ),
                ),
                ("from_status", models.CharField(blank=True, max_length=12)),
                ("to_status", models.CharField(max_length=12)),
                ("reason", models.CharField(max_length=40)),
                ("message", common.db.fields.SentenceField()),
                ("actor_label", models.CharField(max_length=254)),
                ("happened_at", models.DateTimeField()),
            ],
            options={
                "ordering": ("happened_at", "id"),
            },
        ),
        migrations.CreateModel(
            name="SessionWarning",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="warnings",
                        to="sessions_app.computesession",
                    ),
                ),
                ("cause", models.CharField(max_length=12)),
                ("ends_at", models.DateTimeField()),
                ("mark_s", models.PositiveIntegerField()),
                ("warned_at", models.DateTimeField()),
                ("told_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("told_at", None)), fields=["warned_at"], name="warning_untold"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("session", "cause", "ends_at", "mark_s"), name="session_warned_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="StartupScript",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "keypair",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="accounts.keypair",
                    ),
                ),
                (
                    "token_name",
                    models.CharField(
                        blank=True,
                        editable=False,
                        help_text="Of the token; empty: no token wrote it.",
                        max_length=60,
                    ),
                ),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="startup_script",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("content", models.TextField()),
                ("changed_at", models.DateTimeField(default=common.clock.now)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="PersonalSetup",
            fields=[
                (
                    "session",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="setup",
                        serialize=False,
                        to="sessions_app.computesession",
                    ),
                ),
                (
                    "script",
                    models.CharField(
                        choices=[
                            ("none", "None"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                            ("timed_out", "Timed Out"),
                            ("unknown", "Unknown"),
                        ],
                        max_length=10,
                    ),
                ),
                ("files", models.PositiveSmallIntegerField(help_text="That were to be written.")),
                ("skipped", models.JSONField(default=list)),
                ("exit_code", models.IntegerField(null=True)),
                ("took_s", models.PositiveIntegerField(null=True)),
                ("begun_at", models.DateTimeField(default=common.clock.now)),
                ("is_over", models.BooleanField(default=False, help_text="Nothing more will become of it.")),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("is_over", False)), fields=["begun_at"], name="setup_under_way"
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("script__in", ["none", "running", "done", "failed", "timed_out", "unknown"])
                        ),
                        name="setup_script_is_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SessionCallback",
            fields=[
                (
                    "session",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="callback",
                        serialize=False,
                        to="sessions_app.computesession",
                    ),
                ),
                ("url", models.CharField(max_length=2000)),
                (
                    "host",
                    models.CharField(
                        help_text="That of the address: few at once go to one.", max_length=2000
                    ),
                ),
                ("is_open", models.BooleanField(default=True, help_text="More is to be told, or may be.")),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("is_open", True)), fields=["session"], name="callback_open"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CallbackDelivery",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "callback",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="sessions_app.sessioncallback",
                    ),
                ),
                (
                    "transition",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="delivery",
                        to="sessions_app.sessiontransition",
                    ),
                ),
                (
                    "news",
                    models.CharField(
                        choices=[
                            ("session.started", "session.started"),
                            ("session.retried", "session.retried"),
                            ("session.ended", "session.ended"),
                        ],
                        max_length=20,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("delivered", "Delivered"),
                            ("given_up", "Given Up"),
                        ],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("made_at", models.DateTimeField(default=common.clock.now)),
                ("due_at", models.DateTimeField(default=common.clock.now)),
                ("tried_at", models.DateTimeField(null=True)),
                (
                    "answer",
                    models.PositiveSmallIntegerField(
                        help_text="The status of HTTP; null: none was heard.", null=True
                    ),
                ),
                ("fault", models.CharField(blank=True, default="", max_length=10)),
            ],
            options={
                "ordering": ("callback_id", "transition_id"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "waiting")),
                        fields=["callback", "transition"],
                        name="delivery_waiting",
                    ),
                    models.Index(fields=["tried_at"], name="delivery_tried"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["waiting", "delivered", "given_up"])),
                        name="delivery_state_is_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AppLogin",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("secret_hash", models.CharField(max_length=64, unique=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("login_key", models.CharField(blank=True, db_index=True, max_length=40)),
                (
                    "browser",
                    models.ForeignObject(
                        from_fields=["login_key"],
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="accounts.browserlogin",
                        to_fields=["session_key"],
                    ),
                ),
                (
                    "keypair",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.keypair",
                    ),
                ),
                ("keypair_secret", models.CharField(blank=True, default="", max_length=64)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="app_logins",
                        to="sessions_app.computesession",
                    ),
                ),
                ("app", models.CharField(max_length=20)),
                ("door_port", models.PositiveIntegerField(default=0, help_text="0: the app's own host.")),
                ("created_at", models.DateTimeField(default=common.clock.now)),
                ("expires_at", models.DateTimeField(help_text="Of a program's token.", null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(models.Q(("login_key", ""), _negated=True), ("keypair", None)),
                            models.Q(("login_key", ""), ("keypair__isnull", False)),
                            _connector="OR",
                        ),
                        name="app_login_came_from_one_thing",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AppDoor",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("port", models.PositiveIntegerField(unique=True)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="app_doors",
                        to="sessions_app.computesession",
                    ),
                ),
                ("app", models.CharField(max_length=20)),
                ("opened_at", models.DateTimeField(default=common.clock.now)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("session", "app"), name="one_door_for_an_app"),
                    models.CheckConstraint(
                        condition=models.Q(("port__gte", 1), ("port__lte", 65535)), name="door_port_is_a_port"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Dotfile",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "keypair",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="accounts.keypair",
                    ),
                ),
                (
                    "token_name",
                    models.CharField(
                        blank=True,
                        editable=False,
                        help_text="Of the token; empty: no token wrote it.",
                        max_length=60,
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="dotfiles",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("path", common.db.fields.NameField(help_text="From the home directory on.", max_length=255)),
                ("mode", models.CharField(default="0644", max_length=4)),
                ("content", models.TextField(blank=True)),
                ("changed_at", models.DateTimeField(default=common.clock.now)),
            ],
            options={
                "ordering": ("path",),
                "constraints": [models.UniqueConstraint(fields=("user", "path"), name="dotfile_once_a_path")],
            },
        ),
        migrations.RunSQL((SQL / "allocations.sql").read_text()),
        migrations.RunSQL((SQL / "limit_ledger.sql").read_text()),
        migrations.RunPython(keep_as_it_is),
    ]
