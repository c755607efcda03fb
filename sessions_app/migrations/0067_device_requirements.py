"""Least memory, version, links and isolation of the accelerators of a session."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0066_allocate_usable_devices"),
    ]

    operations = [
        migrations.AddField(
            model_name="computesession",
            name="device_api_version",
            field=models.PositiveIntegerField(
                db_default=0,
                default=0,
                help_text="Least CUDA or ROCm version of the driver, as 12040; 0: any.",
            ),
        ),
        migrations.AddField(
            model_name="computesession",
            name="device_mem_bytes",
            field=models.BigIntegerField(
                db_default=0, default=0, help_text="Least memory of each accelerator; 0: any."
            ),
        ),
        migrations.AddField(
            model_name="computesession",
            name="isolation",
            field=models.CharField(
                db_default="",
                default="",
                help_text="Least isolation of a part: cooperative, server, driver or hardware; empty: any.",
                max_length=12,
            ),
        ),
        migrations.AddField(
            model_name="computesession",
            name="linked_devices",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="true if all its devices must be linked with each other.",
            ),
        ),
    ]
