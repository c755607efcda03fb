import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0023_retries"),
    ]

    operations = [
        migrations.CreateModel(
            name="GatewayReport",
            fields=[
                ("process", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("reported_at", models.DateTimeField()),
            ],
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
            name="SessionWarning",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("cause", models.CharField(max_length=12)),
                ("ends_at", models.DateTimeField()),
                ("mark_s", models.PositiveIntegerField()),
                ("warned_at", models.DateTimeField()),
                ("told_at", models.DateTimeField(null=True)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="warnings",
                        to="sessions_app.computesession",
                    ),
                ),
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
    ]
