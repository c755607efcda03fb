"""Rename three settings of resource groups on pages, after what they do."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0014_room_for_devices"),
    ]

    operations = [
        migrations.AlterField(
            model_name="resourcegroup",
            name="patience_s",
            field=models.PositiveIntegerField(
                default=600,
                help_text="Seconds after which room is kept for the first session that finds none, where nobody knows when there will be. Where that is known, it is kept at once.",
                verbose_name="Wait before room is kept",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="preemption_after_s",
            field=models.PositiveIntegerField(
                default=600,
                help_text="Seconds that a session runs at least before it is ended for others.",
                verbose_name="Least run time before ending",
            ),
        ),
        migrations.AlterField(
            model_name="resourcegroup",
            name="preemption_grace_s",
            field=models.PositiveIntegerField(
                default=60,
                help_text="Seconds from when its owner is told to its end.",
                validators=[django.core.validators.MaxValueValidator(3600)],
                verbose_name="Warning before ending",
            ),
        ),
    ]
