"""Create the tables of the app as the migrations that this one replaces leave them."""

from django.db import migrations, models

import common.clock


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("recorded_at", models.DateTimeField()),
                (
                    "last_at",
                    models.DateTimeField(
                        help_text="Time of the last occurrence, if the entry counts several.", null=True
                    ),
                ),
                ("count", models.PositiveIntegerField(default=1)),
                ("fold_key", models.CharField(blank=True, default="", max_length=64)),
                ("actor_kind", models.CharField(max_length=10)),
                ("actor_id", models.BigIntegerField(null=True)),
                ("actor_label", models.CharField(max_length=254)),
                ("acted_as_id", models.BigIntegerField(null=True)),
                ("acted_as_label", models.CharField(blank=True, default="", max_length=254)),
                ("domain_id", models.BigIntegerField(null=True)),
                ("ip", models.CharField(blank=True, max_length=45)),
                ("via", models.CharField(blank=True, default="", max_length=10)),
                ("user_agent", models.CharField(blank=True, default="", max_length=200)),
                ("request_id", models.CharField(blank=True, max_length=40)),
                ("action", models.CharField(max_length=60)),
                ("target_type", models.CharField(blank=True, max_length=60)),
                ("target_id", models.CharField(blank=True, max_length=60)),
                ("target_label", models.CharField(blank=True, max_length=254)),
                (
                    "outcome",
                    models.CharField(
                        choices=[("done", "Done"), ("refused", "Refused"), ("failed", "Failed")],
                        max_length=10,
                    ),
                ),
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        default="",
                        help_text="Error code, if the action was refused.",
                        max_length=60,
                    ),
                ),
                ("changes", models.JSONField(default=dict)),
            ],
            options={
                "verbose_name_plural": "audit entries",
                "ordering": ("-recorded_at", "-id"),
                "indexes": [
                    models.Index(
                        fields=["-recorded_at", "-id"],
                        include=("outcome", "actor_label", "target_label", "target_id", "request_id"),
                        name="audit_list",
                    ),
                    models.Index(fields=["actor_id", "-recorded_at"], name="audit_of_actor"),
                    models.Index(fields=["domain_id", "-recorded_at"], name="audit_of_domain"),
                    models.Index(fields=["action", "-recorded_at"], name="audit_of_action"),
                    models.Index(fields=["target_type", "target_id", "-recorded_at"], name="audit_of_target"),
                    models.Index(
                        condition=models.Q(("acted_as_id__isnull", False)),
                        fields=["acted_as_id"],
                        name="audit_acted_as",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("fold_key", ""), _negated=True),
                        fields=("fold_key",),
                        name="one_entry_for_what_repeats",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ClockReading",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("machine", models.CharField(max_length=64)),
                ("ahead_s", models.FloatField()),
                ("looked_at_s", models.FloatField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("pk", 1)), name="one_clock_reading")
                ]
            },
        ),
        migrations.CreateModel(
            name="KeptAnswer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("actor_id", models.BigIntegerField()),
                ("key_hash", models.CharField(max_length=64)),
                ("request_hash", models.CharField(max_length=64)),
                ("status", models.PositiveSmallIntegerField(default=0)),
                ("location", models.CharField(blank=True, max_length=2000)),
                ("body", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(db_index=True, default=common.clock.now)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("actor_id", "key_hash"), name="one_answer_for_a_key_of_an_actor"
                    )
                ]
            },
        ),
    ]
