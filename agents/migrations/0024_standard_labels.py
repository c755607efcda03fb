from decimal import Decimal

import django.contrib.postgres.fields
import django.core.validators
from django.db import migrations, models

import agents.models.resource_group


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0023_no_run_state"),
    ]

    operations = [
        migrations.AlterField(
            model_name="resourcegroup",
            name="cpu_overcommit",
            field=models.DecimalField(
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
        migrations.AlterField(
            model_name="resourcegroup",
            name="ends_idle_batch",
            field=models.BooleanField(
                default=False,
                help_text="Batch sessions end for low utilization as well; no user activity is expected in them.",
                verbose_name="Batch too",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="is_public",
            field=models.BooleanField(
                default=True, help_text="Everybody may use it; else only those with a grant."
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="limits",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text="Limits for all its sessions together and per person, always or at certain hours.",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="max_idle_s",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Seconds without user activity after which an interactive session ends.",
                null=True,
                validators=[django.core.validators.MinValueValidator(60)],
                verbose_name="Idle timeout",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="max_session_slots",
            field=models.JSONField(
                blank=True,
                default=dict,
                help_text="The maximum that one session may request; what is not named is unlimited.",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="mem_overcommit",
            field=models.DecimalField(
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
        migrations.AlterField(
            model_name="resourcegroup",
            name="min_cpu_percent",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="Percent of what is allocated to a session. Empty: as policies say.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100),
                ],
                verbose_name="Minimum CPU utilization",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="min_device_mem_percent",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="Percent of what is allocated to a session. Empty: as policies say.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100),
                ],
                verbose_name="Minimum accelerator memory utilization",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="min_device_percent",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="Percent of what is allocated to a session. Empty: as policies say.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100),
                ],
                verbose_name="Minimum accelerator utilization",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="min_mem_percent",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="Percent of what is allocated to a session. Empty: as policies say.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100),
                ],
                verbose_name="Minimum memory utilization",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="session_types",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(
                    choices=[("interactive", "Interactive"), ("batch", "Batch")], max_length=12
                ),
                default=agents.models.resource_group.every_session_type,
                help_text="Types of sessions that it accepts.",
                size=None,
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="usage_half_life_s",
            field=models.PositiveIntegerField(
                default=604800,
                help_text="Seconds after which past use counts half, with fair share.",
                validators=[
                    django.core.validators.MinValueValidator(600),
                    django.core.validators.MaxValueValidator(31622400),
                ],
                verbose_name="Fair-share half-life",
            ),
        ),
    ]
