"""Lower the fill factor of agent slots: allocations change with each session, and free space in the
page avoids index writes (HOT updates).
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("agents", "0009_reservations")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE agents_agentslot SET (fillfactor = 50)",
            "ALTER TABLE agents_agentslot RESET (fillfactor)",
        )
    ]
