"""Index the devices that get no allocations, which snapshots of groups are checked for."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0029_device_metrics"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="agentdevice",
            index=models.Index(
                condition=models.Q(("is_usable", False)), fields=["agent"], name="agent_device_not_usable"
            ),
        ),
    ]
