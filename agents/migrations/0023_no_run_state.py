"""Remove the scheduler's run state, which `scheduler.0006` has copied to a table of its own."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0001_squashed_0022_standard_words"),
        ("scheduler", "0001_squashed_0006_scheduler_state"),
    ]

    operations = [
        migrations.RemoveField(model_name="resourcegroup", name="epoch"),
        migrations.RemoveField(model_name="resourcegroup", name="last_agent_id"),
        migrations.RemoveField(model_name="resourcegroup", name="head_ids"),
        migrations.RemoveField(model_name="resourcegroup", name="gathered"),
    ]
