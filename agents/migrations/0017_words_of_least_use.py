"""State in the help text that policies apply if a group sets no minimum utilisation."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0016_heads"),
    ]

    operations = [
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
                verbose_name="Least use of CPU",
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
                verbose_name="Least use of their memory",
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
                verbose_name="Least use of accelerators",
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
                verbose_name="Least use of memory",
            ),
        ),
    ]
