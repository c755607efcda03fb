"""The run state of the scheduler has a row of its own (`scheduler.0006`), which has copied it."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("agents", "0022_standard_words"), ("scheduler", "0006_scheduler_state")]

    operations = [
        migrations.RemoveField(model_name="resourcegroup", name="epoch"),
        migrations.RemoveField(model_name="resourcegroup", name="last_agent_id"),
        migrations.RemoveField(model_name="resourcegroup", name="head_ids"),
        migrations.RemoveField(model_name="resourcegroup", name="gathered"),
    ]
