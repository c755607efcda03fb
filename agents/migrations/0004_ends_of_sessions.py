import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0003_names_of_rules"),
    ]

    operations = [
        migrations.AddField(
            model_name="resourcegroup",
            name="ends_idle_batch",
            field=models.BooleanField(
                default=False,
                help_text="Batch sessions end for little use as well; nobody is expected at work in them.",
                verbose_name="Batch too",
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="extension_s",
            field=models.PositiveIntegerField(
                default=3600, help_text="Seconds, each time.", verbose_name="Length of an extension"
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="max_extensions",
            field=models.PositiveIntegerField(
                default=0, help_text="How often a session may be extended.", verbose_name="Extensions"
            ),
        ),
        # Existing limits stay as strict as they were: only new groups allow extensions by default.
        migrations.AlterField(
            model_name="resourcegroup",
            name="max_extensions",
            field=models.PositiveIntegerField(
                default=3, help_text="How often a session may be extended.", verbose_name="Extensions"
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="max_idle_s",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Seconds without anybody at work in it after which an interactive session ends.",
                null=True,
                validators=[django.core.validators.MinValueValidator(60)],
                verbose_name="Idle time",
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="max_lifetime_s",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Seconds that a session runs at most.",
                null=True,
                validators=[django.core.validators.MinValueValidator(60)],
                verbose_name="Lifetime",
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="min_cpu_percent",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="Percent of what a session holds. Empty: any use will do.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100),
                ],
                verbose_name="Least use of CPU",
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="min_device_mem_percent",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="Percent of what a session holds. Empty: any use will do.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100),
                ],
                verbose_name="Least use of their memory",
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="min_device_percent",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="Percent of what a session holds. Empty: any use will do.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100),
                ],
                verbose_name="Least use of accelerators",
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="min_mem_percent",
            field=models.PositiveSmallIntegerField(
                blank=True,
                help_text="Percent of what a session holds. Empty: any use will do.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100),
                ],
                verbose_name="Least use of memory",
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="use_grace_s",
            field=models.PositiveIntegerField(
                default=3600,
                help_text="Seconds from when it uses too little to its end.",
                validators=[django.core.validators.MinValueValidator(600)],
                verbose_name="Grace",
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="use_rule",
            field=models.CharField(
                choices=[("all", "all of them are below"), ("any", "any of them is below")],
                default="all",
                max_length=3,
                verbose_name="It uses too little if",
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="use_window_s",
            field=models.PositiveIntegerField(
                default=3600,
                help_text="Seconds over which use is averaged.",
                validators=[
                    django.core.validators.MinValueValidator(600),
                    django.core.validators.MaxValueValidator(86400),
                ],
                verbose_name="Window",
            ),
        ),
        migrations.AddConstraint(
            model_name="resourcegroup",
            constraint=models.CheckConstraint(
                condition=models.Q(("use_rule__in", ["all", "any"])), name="resource_group_use_rule_is_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="resourcegroup",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("max_lifetime_s", None), ("max_lifetime_s__gt", 0), _connector="OR"),
                    models.Q(("max_idle_s", None), ("max_idle_s__gt", 0), _connector="OR"),
                ),
                name="resource_group_ends_take_time",
            ),
        ),
    ]
