import django.db.models.deletion
from django.db import migrations, models

import common.clock
import common.db.fields


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0005_resource_group_grants"),
        ("scheduler", "0002_keep_use"),
        ("sessions_app", "0027_priority_changes"),
    ]

    operations = [
        migrations.CreateModel(
            name="KeptTick",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
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
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="kept_ticks",
                        to="agents.resourcegroup",
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
            name="WaitingReason",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("since", models.DateTimeField(default=common.clock.now)),
                ("reason", models.CharField(max_length=40)),
                ("message", common.db.fields.SentenceField()),
                ("position", models.PositiveIntegerField()),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="waiting_reasons",
                        to="sessions_app.computesession",
                    ),
                ),
            ],
            options={
                "ordering": ("session", "number"),
                "constraints": [
                    models.UniqueConstraint(fields=("session", "number"), name="waiting_reason_once")
                ],
            },
        ),
    ]
