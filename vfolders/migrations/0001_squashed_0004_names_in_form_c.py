"""Create the tables, functions and triggers of the app as the migrations that this one replaces
leave them.
"""

import uuid
from pathlib import Path

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

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
            name="StorageHost",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", common.db.fields.NameField(max_length=64, unique=True)),
                ("kind", models.CharField(choices=[("local", "Local")], default="local", max_length=20)),
                ("config", models.JSONField(blank=True, default=dict)),
                ("is_default", models.BooleanField(default=False)),
                (
                    "is_active",
                    models.BooleanField(default=True, help_text="New folders may be created on this host."),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "ordering": ("name",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("is_default", True)),
                        fields=("is_default",),
                        name="storage_host_one_default",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="VFolder",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("name", common.db.fields.NameField(max_length=64)),
                (
                    "domain",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="folders",
                        to="accounts.domain",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="folders",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="folders",
                        to="accounts.project",
                    ),
                ),
                (
                    "host",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="folders",
                        to="vfolders.storagehost",
                    ),
                ),
                (
                    "mode",
                    models.CharField(choices=[("general", "General")], default="general", max_length=20),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("ready", "ready"), ("deleting", "deleting")],
                        default="ready",
                        editable=False,
                        max_length=20,
                    ),
                ),
                (
                    "creator",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
                (
                    "size_bytes",
                    models.BigIntegerField(
                        default=0,
                        editable=False,
                        help_text="Size as last measured, plus what the portal has written since.",
                    ),
                ),
                ("measured_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "is_size_whole",
                    models.BooleanField(
                        default=True,
                        editable=False,
                        help_text="false if the folder is larger than was counted.",
                    ),
                ),
                (
                    "measure_at",
                    models.DateTimeField(
                        default=common.clock.now, editable=False, help_text="Time of the next measurement."
                    ),
                ),
            ],
            options={
                "ordering": ("name", "id"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "ready")), fields=["measure_at"], name="folder_measure"
                    ),
                    models.Index(
                        condition=models.Q(("state", "deleting")), fields=["state"], name="folder_deleting"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("owner__isnull", False), ("project__isnull", True)),
                            models.Q(("owner__isnull", True), ("project__isnull", False)),
                            _connector="OR",
                        ),
                        name="folder_of_user_or_project",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["ready", "deleting"])), name="folder_state_is_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("size_bytes__gte", 0)), name="folder_size_not_negative"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "ready")),
                        fields=("owner", "name"),
                        name="folder_name_of_owner",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "ready")),
                        fields=("project", "name"),
                        name="folder_name_of_project",
                    ),
                ],
            },
        ),
        migrations.RunSQL((SQL / "limit_ledger.sql").read_text()),
    ]
