"""Lower the fill factor of devices: their allocation changes with each session that uses a share of
them, and free space in the page avoids index writes (HOT updates).
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("agents", "0013_devices")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE agents_agentdevice SET (fillfactor = 50)",
            "ALTER TABLE agents_agentdevice RESET (fillfactor)",
        )
    ]
