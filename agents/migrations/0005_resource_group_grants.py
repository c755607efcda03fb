"""Add grants, accepted session types and limits of resource groups.
A group that was inactive was hidden: it becomes paused, without grants.
"""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import agents.models.resource_group
import common.clock


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0023_allow_lists"),
        ("agents", "0004_ends_of_sessions"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="GroupGrant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("created_at", models.DateTimeField(default=common.clock.now, editable=False)),
            ],
            options={
                "ordering": ("id",),
            },
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="deleted_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="description",
            field=models.CharField(blank=True, max_length=500),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="is_public",
            field=models.BooleanField(
                default=True, help_text="Everybody may use it; else only whom it is granted to."
            ),
        ),
        migrations.RunSQL(
            "UPDATE agents_resourcegroup SET is_public = false WHERE NOT is_active", migrations.RunSQL.noop
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="max_session_slots",
            field=models.JSONField(
                blank=True,
                default=dict,
                help_text="What one session may ask for at most; what is not named is unlimited.",
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="session_types",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(
                    choices=[("interactive", "Interactive"), ("batch", "Batch")], max_length=12
                ),
                default=agents.models.resource_group.every_session_type,
                help_text="What it takes.",
                size=None,
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="is_active",
            field=models.BooleanField(
                default=True, help_text="A paused group takes requests and starts nothing."
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="name",
            field=models.CharField(
                max_length=64,
                validators=[
                    django.core.validators.RegexValidator(
                        "^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$",
                        "Use lower-case letters, digits, dots, dashes and underscores; begin and end with a letter or digit.",
                    )
                ],
            ),
        ),
        migrations.AddConstraint(
            model_name="resourcegroup",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at", None)),
                fields=("name",),
                name="resource_group_name_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="resourcegroup",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("session_types__contained_by", ["interactive", "batch"]), ("session_types__len__gt", 0)
                ),
                name="resource_group_takes_known_types",
            ),
        ),
        migrations.AddConstraint(
            model_name="resourcegroup",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("deleted_at", None),
                    models.Q(("is_active", False), ("is_default", False)),
                    _connector="OR",
                ),
                name="resource_group_deleted_is_idle",
            ),
        ),
        migrations.AddField(
            model_name="groupgrant",
            name="domain",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="accounts.domain"
            ),
        ),
        migrations.AddField(
            model_name="groupgrant",
            name="group",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="grants", to="agents.resourcegroup"
            ),
        ),
        migrations.AddField(
            model_name="groupgrant",
            name="project",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="accounts.project",
            ),
        ),
        migrations.AddField(
            model_name="groupgrant",
            name="user",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            model_name="groupgrant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("domain__isnull", False), ("project", None), ("user", None)),
                    models.Q(("domain", None), ("project__isnull", False), ("user", None)),
                    models.Q(("domain", None), ("project", None), ("user__isnull", False)),
                    _connector="OR",
                ),
                name="group_grant_is_to_one",
            ),
        ),
        migrations.AddConstraint(
            model_name="groupgrant",
            constraint=models.UniqueConstraint(fields=("group", "domain"), name="group_grant_once_to_domain"),
        ),
        migrations.AddConstraint(
            model_name="groupgrant",
            constraint=models.UniqueConstraint(
                fields=("group", "project"), name="group_grant_once_to_project"
            ),
        ),
        migrations.AddConstraint(
            model_name="groupgrant",
            constraint=models.UniqueConstraint(fields=("group", "user"), name="group_grant_once_to_user"),
        ),
    ]
