"""What an agent's slots are occupied with changes with each session: pages keep room for that, so that no index is written."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("agents", "0009_reservations")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE agents_agentslot SET (fillfactor = 50)",
            "ALTER TABLE agents_agentslot RESET (fillfactor)",
        )
    ]
