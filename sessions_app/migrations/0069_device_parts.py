"""Memory and compute of the part of a device that a session asked for."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0068_device_requeue"),
    ]

    operations = [
        migrations.AddField(
            model_name="computesession",
            name="device_share_cores",
            field=models.PositiveSmallIntegerField(
                db_default=0,
                default=0,
                help_text="Percent of compute of its part of a device; 0: not limited.",
            ),
        ),
        migrations.AddField(
            model_name="computesession",
            name="device_share_mem_bytes",
            field=models.BigIntegerField(
                db_default=0,
                default=0,
                help_text="Memory of its part of a device; 0: not limited by an amount.",
            ),
        ),
    ]
