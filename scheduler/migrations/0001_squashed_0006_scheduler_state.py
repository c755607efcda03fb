"""Create the tables, functions and triggers of the app as the migrations that this one replaces
leave them. An installation older than the scheduler has resource groups: their run state is copied.
"""

from decimal import Decimal
from pathlib import Path

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import common.clock
import common.db.fields

SQL = Path(__file__).with_name("sql")
COPY_RUN_STATE = """
INSERT INTO scheduler_schedulerstate (group_id, epoch, last_agent_id, head_ids, gathered)
SELECT id, epoch, last_agent_id, head_ids, gathered FROM agents_resourcegroup ORDER BY id
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_squashed_0031_purged_people_hold_nothing"),
        ("accounts", "__first__"),
        ("agents", "0001_squashed_0022_standard_words"),
        ("sessions_app", "0001_squashed_0063_drop_input_changes"),
    ]

    operations = [
        migrations.CreateModel(
            name="SchedulerState",
            fields=[
                (
                    "group",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="scheduler_state",
                        serialize=False,
                        to="agents.resourcegroup",
                    ),
                ),
                (
                    "epoch",
                    models.BigIntegerField(
                        default=0, help_text="Number of committed plans and of changes that discard plans."
                    ),
                ),
                (
                    "last_agent_id",
                    models.BigIntegerField(
                        default=0,
                        help_text="Agent that was given a container last; round-robin goes on behind it.",
                    ),
                ),
                (
                    "head_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(),
                        default=list,
                        help_text="Waiting sessions for which capacity was reserved, in the order in which they are tried first.",
                        size=None,
                    ),
                ),
                (
                    "gathered",
                    models.JSONField(
                        default=list,
                        help_text="Where capacity is gathered for sessions whose start cannot be predicted.",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DecayedUse",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("group_id", models.BigIntegerField()),
                ("project_id", models.BigIntegerField()),
                ("user_id", models.BigIntegerField()),
                ("slot_name", models.CharField(max_length=32)),
                ("average", models.FloatField()),
                ("as_of", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("group_id", "project_id", "user_id", "slot_name"), name="decayed_use_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("average__gte", 0)), name="decayed_use_is_no_debt"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="KeptTick",
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
                        related_name="kept_ticks",
                        to="agents.resourcegroup",
                    ),
                ),
                ("planned_at", models.DateTimeField()),
                ("epoch", models.PositiveBigIntegerField()),
                ("read_us", models.PositiveIntegerField()),
                ("decide_us", models.PositiveIntegerField()),
                ("commit_us", models.PositiveIntegerField()),
                ("placed", models.PositiveIntegerField()),
                ("waiting", models.PositiveIntegerField()),
                (
                    "reasons",
                    models.JSONField(default=dict, help_text="How many went on waiting, by reason code."),
                ),
                (
                    "placements",
                    models.JSONField(
                        default=list,
                        help_text="The first of those placed: session, and the agent of each of its containers.",
                    ),
                ),
                (
                    "reservations",
                    models.JSONField(
                        default=list, help_text="For whom room was kept: session, agents, until."
                    ),
                ),
                ("picture", models.BinaryField(help_text="What it saw (`packing`).", null=True)),
                ("picture_bytes", models.PositiveIntegerField(default=0)),
                (
                    "digest",
                    models.CharField(
                        blank=True, help_text="Of all it decided, where it has a picture.", max_length=64
                    ),
                ),
            ],
            options={
                "ordering": ("-planned_at", "-id"),
                "indexes": [
                    models.Index(fields=["group", "-planned_at"], name="tick_of_group"),
                    models.Index(
                        condition=models.Q(("picture_bytes__gt", 0)),
                        fields=["group", "-planned_at"],
                        name="tick_with_picture",
                    ),
                    models.Index(fields=["planned_at"], name="tick_age"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("picture", None), ("picture_bytes", 0)),
                            models.Q(("picture__isnull", False), ("picture_bytes__gt", 0)),
                            _connector="OR",
                        ),
                        name="tick_counts_its_picture",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ShareWeight",
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
                        related_name="share_weights",
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
                (
                    "weight",
                    models.DecimalField(
                        decimal_places=3,
                        max_digits=7,
                        validators=[
                            django.core.validators.MinValueValidator(Decimal("0.001")),
                            django.core.validators.MaxValueValidator(Decimal("1000")),
                        ],
                        verbose_name="Weight",
                    ),
                ),
            ],
            options={
                "ordering": ("id",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("weight__gt", 0), ("weight__lte", Decimal("1000"))),
                        name="share_weight_is_above_0",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("domain__isnull", False), ("project", None), ("user", None)),
                            models.Q(("domain", None), ("project__isnull", False), ("user", None)),
                            models.Q(("domain", None), ("project", None), ("user__isnull", False)),
                            _connector="OR",
                        ),
                        name="share_weight_is_of_one",
                    ),
                    models.UniqueConstraint(fields=("group", "domain"), name="share_weight_once_of_domain"),
                    models.UniqueConstraint(fields=("group", "project"), name="share_weight_once_of_project"),
                    models.UniqueConstraint(fields=("group", "user"), name="share_weight_once_of_user"),
                ],
            },
        ),
        migrations.CreateModel(
            name="WaitingReason",
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
                        related_name="waiting_reasons",
                        to="sessions_app.computesession",
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("since", models.DateTimeField(default=common.clock.now)),
                ("reason", models.CharField(max_length=40)),
                ("message", common.db.fields.SentenceField()),
                ("position", models.PositiveIntegerField()),
            ],
            options={
                "ordering": ("session", "number"),
                "constraints": [
                    models.UniqueConstraint(fields=("session", "number"), name="waiting_reason_once")
                ],
            },
        ),
        migrations.RunSQL((SQL / "decayed_use.sql").read_text()),
        migrations.RunSQL(COPY_RUN_STATE),
    ]
