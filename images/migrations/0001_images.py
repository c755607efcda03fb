import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

import common.clock


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Registry",
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
                                "Use lower-case letters, digits, dots, dashes and underscores; "
                                "begin and end with a letter or digit.",
                            )
                        ],
                    ),
                ),
                ("host", models.CharField(max_length=255, unique=True)),
                ("url", models.URLField(max_length=500, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("plain", "Registry (v2)"),
                            ("docker-hub", "Docker Hub"),
                            ("harbor", "Harbor"),
                            ("gitlab", "GitLab"),
                            ("github", "GitHub"),
                            ("ecr", "Amazon ECR"),
                            ("ngc", "NVIDIA NGC"),
                        ],
                        default="plain",
                        max_length=20,
                    ),
                ),
                ("is_enabled", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "verbose_name_plural": "registries",
                "ordering": ("name",),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("kind__in", ["plain", "docker-hub", "harbor", "gitlab", "github", "ecr", "ngc"])
                        ),
                        name="registry_kind_is_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ContainerImage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("reference", models.CharField(max_length=255, unique=True)),
                ("title", models.CharField(blank=True, max_length=60)),
                ("description", models.CharField(blank=True, max_length=500)),
                ("icon", models.CharField(blank=True, max_length=40)),
                ("apps", models.JSONField(blank=True, default=list)),
                ("min_slots", models.JSONField(blank=True, default=dict)),
                ("architecture", models.CharField(blank=True, max_length=20)),
                ("digest", models.CharField(blank=True, max_length=80)),
                ("size_bytes", models.BigIntegerField(default=0)),
                ("is_enabled", models.BooleanField(default=True)),
                ("built_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
                (
                    "registry",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="images",
                        to="images.registry",
                    ),
                ),
            ],
            options={
                "ordering": ("title", "-created_at", "reference"),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("size_bytes__gte", 0)), name="image_size_is_not_negative"
                    )
                ],
            },
        ),
    ]
