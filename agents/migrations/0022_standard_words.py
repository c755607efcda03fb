import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0021_names_in_form_c"),
    ]

    operations = [
        migrations.AlterField(
            model_name="resourcegroup",
            name="max_idle_s",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Seconds without anybody at work in it after which an interactive session ends.",
                null=True,
                validators=[django.core.validators.MinValueValidator(60)],
                verbose_name="Idle timeout",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="min_cpu_percent",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="Percent of what a session holds. Empty: as policies say.",
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
                help_text="Percent of what a session holds. Empty: as policies say.",
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
                help_text="Percent of what a session holds. Empty: as policies say.",
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
                help_text="Percent of what a session holds. Empty: as policies say.",
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
                help_text="Seconds after which capacity is reserved for the first session that finds none, where it is unknown when there will be. Where that is known, it is reserved at once.",
                verbose_name="Wait before a backfill reservation",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="preemptible_priority",
            field=models.SmallIntegerField(
                blank=True,
                help_text="Sessions of this priority or lower are preempted where one with a higher priority finds no room. Empty: no preemption.",
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
            name="preemption_after_s",
            field=models.PositiveIntegerField(
                default=600,
                help_text="Seconds that a session runs at least before it can be preempted.",
                verbose_name="Minimum run time before preemption",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="preemption_grace_s",
            field=models.PositiveIntegerField(
                default=60,
                help_text="Seconds from the warning of its owner to the preemption.",
                validators=[django.core.validators.MaxValueValidator(3600)],
                verbose_name="Warning before preemption",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="scheduler",
            field=models.CharField(
                choices=[
                    ("fifo", "First in, first out"),
                    ("lifo", "Last in, first out"),
                    ("drf", "Dominant resource fairness"),
                    ("fair_share", "Fair share"),
                ],
                default="fifo",
                max_length=20,
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
                verbose_name="Half-life of use",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="use_grace_s",
            field=models.PositiveIntegerField(
                default=3600,
                help_text="Seconds from low utilization to the end.",
                validators=[django.core.validators.MinValueValidator(600)],
                verbose_name="Grace",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="use_rule",
            field=models.CharField(
                choices=[("all", "all of them are below"), ("any", "any of them is below")],
                default="all",
                max_length=3,
                verbose_name="Utilization is low if",
            ),
        ),
    ]
