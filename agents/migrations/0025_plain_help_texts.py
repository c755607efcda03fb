import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0024_standard_labels"),
    ]

    operations = [
        migrations.AlterField(
            model_name="agentdevice",
            name="device_id",
            field=models.CharField(
                help_text="Id of the device given by the vendor; it survives restarts.", max_length=128
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="ageing_s",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Seconds of waiting that raise a session's priority by one. Empty: no ageing.",
                null=True,
                validators=[django.core.validators.MinValueValidator(1)],
                verbose_name="Ageing",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="extension_s",
            field=models.PositiveIntegerField(
                default=3600,
                help_text="Seconds by which one extension postpones the end.",
                verbose_name="Length of an extension",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="is_active",
            field=models.BooleanField(
                default=True, help_text="A paused group accepts requests, but starts no sessions."
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="is_public",
            field=models.BooleanField(
                default=True, help_text="Everybody may use the group; otherwise only holders of a grant."
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="limits",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text="Limits for all sessions together and for each user, always or at certain hours.",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="max_extensions",
            field=models.PositiveIntegerField(
                default=3,
                help_text="Number of times that a session may be extended.",
                verbose_name="Extensions",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="max_session_slots",
            field=models.JSONField(
                blank=True,
                default=dict,
                help_text="Maximum that one session may request; slots that are not named are unlimited.",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="min_cpu_percent",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="Percent of the allocation of a session. Empty: as policies say.",
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
                help_text="Percent of the allocation of a session. Empty: as policies say.",
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
                help_text="Percent of the allocation of a session. Empty: as policies say.",
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
                help_text="Percent of the allocation of a session. Empty: as policies say.",
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
            name="patience_s",
            field=models.PositiveIntegerField(
                default=600,
                help_text="Seconds of waiting after which capacity is reserved for the first session that does not fit. If its start can be predicted, capacity is reserved at once.",
                verbose_name="Wait before a backfill reservation",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="preemptible_priority",
            field=models.SmallIntegerField(
                blank=True,
                help_text="Sessions of this priority or lower are preempted if a session of higher priority does not fit. Empty: no preemption.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(-100),
                    django.core.validators.MaxValueValidator(100),
                ],
                verbose_name="Preemption up to priority",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="preemption_grace_s",
            field=models.PositiveIntegerField(
                default=60,
                help_text="Seconds between the warning of the owner and the preemption.",
                validators=[django.core.validators.MaxValueValidator(3600)],
                verbose_name="Warning before preemption",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="usage_half_life_s",
            field=models.PositiveIntegerField(
                default=604800,
                help_text="Seconds after which past use counts half, for fair share only.",
                validators=[
                    django.core.validators.MinValueValidator(600),
                    django.core.validators.MaxValueValidator(31622400),
                ],
                verbose_name="Fair-share half-life",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="use_grace_s",
            field=models.PositiveIntegerField(
                default=3600,
                help_text="Seconds between the detection of low utilization and the end of the session.",
                validators=[django.core.validators.MinValueValidator(600)],
                verbose_name="Grace",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="use_window_s",
            field=models.PositiveIntegerField(
                default=3600,
                help_text="Period in seconds over which utilization is averaged.",
                validators=[
                    django.core.validators.MinValueValidator(600),
                    django.core.validators.MaxValueValidator(86400),
                ],
                verbose_name="Window",
            ),
        ),
    ]
