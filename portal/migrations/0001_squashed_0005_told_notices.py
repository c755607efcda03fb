"""Create the tables of the app as the migrations that this one replaces leave them."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import common.clock


class Migration(migrations.Migration):
    initial = True

    dependencies = [("accounts", "0001_squashed_0031_purged_people_hold_nothing"), ("accounts", "__first__")]

    operations = [
        migrations.CreateModel(
            name="Notification",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notifications",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("code", models.CharField(max_length=40)),
                ("arguments", models.JSONField(default=dict)),
                ("session_id", models.UUIDField(null=True)),
                ("created_at", models.DateTimeField(default=common.clock.now)),
                ("read_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ("-created_at", "-id"),
                "indexes": [
                    models.Index(fields=["person", "-created_at", "-id"], name="notification_person"),
                    models.Index(
                        condition=models.Q(("read_at", None)), fields=["person"], name="notification_unread"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="NotificationChoice",
            fields=[
                (
                    "person",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "muted",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=20), default=list, size=None
                    ),
                ),
                (
                    "mailed",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=20), default=list, size=None
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Announcement",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("text", models.CharField(max_length=500)),
                (
                    "tone",
                    models.CharField(
                        choices=[
                            ("is-busy", "News"),
                            ("is-good", "Good news"),
                            ("is-warn", "Warning"),
                            ("is-bad", "Alarm"),
                        ],
                        default="is-busy",
                        max_length=10,
                    ),
                ),
                ("starts_at", models.DateTimeField(default=common.clock.now, help_text="UTC.")),
                (
                    "ends_at",
                    models.DateTimeField(blank=True, help_text="UTC; empty: until it is deleted.", null=True),
                ),
                (
                    "is_dismissible",
                    models.BooleanField(default=True, help_text="People can hide it for themselves."),
                ),
            ],
            options={
                "ordering": ("-starts_at", "-id"),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ends_at", None), ("ends_at__gt", models.F("starts_at")), _connector="OR"
                        ),
                        name="announcement_ends_after_start",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="NotificationMail",
            fields=[
                (
                    "notification",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="mail",
                        serialize=False,
                        to="portal.notification",
                    ),
                ),
                ("due_at", models.DateTimeField(db_index=True, default=common.clock.now)),
            ],
        ),
        migrations.CreateModel(
            name="ToldNotice",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("happening", models.CharField(max_length=120)),
                (
                    "again_until",
                    models.DateTimeField(db_index=True, help_text="Nobody comes to tell it again later."),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["happening"], name="told_happening")],
                "constraints": [models.UniqueConstraint(fields=("person", "happening"), name="told_once")],
            },
        ),
    ]
