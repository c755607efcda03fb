"""What is held of a device changes with each session that gets a part of it: where its page has room, no index is written for that."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("agents", "0013_devices")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE agents_agentdevice SET (fillfactor = 50)",
            "ALTER TABLE agents_agentdevice RESET (fillfactor)",
        )
    ]
