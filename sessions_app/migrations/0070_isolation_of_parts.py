"""Isolation of a part of a device, which is written once the container runs."""

from django.db import migrations, models

FIXED = "kernel_id, agent_id, slot_name, amount, devices, cpuset, held_since"
FORWARD = f"""
DROP TRIGGER berth_allocations_fixed ON sessions_app_kernelallocation;
CREATE TRIGGER berth_allocations_fixed BEFORE UPDATE OF {FIXED} ON sessions_app_kernelallocation
    FOR EACH STATEMENT EXECUTE FUNCTION berth_apply_allocations();
"""
BACKWARD = """
DROP TRIGGER berth_allocations_fixed ON sessions_app_kernelallocation;
CREATE TRIGGER berth_allocations_fixed BEFORE UPDATE ON sessions_app_kernelallocation
    FOR EACH STATEMENT EXECUTE FUNCTION berth_apply_allocations();
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0069_device_parts")]

    operations = [
        migrations.AddField(
            "kernelallocation",
            "isolation",
            models.CharField(blank=True, db_default="", default="", editable=False, max_length=12),
        ),
        migrations.AddField(
            "kernelallocation",
            "isolation_note",
            models.CharField(blank=True, db_default="", default="", editable=False, max_length=300),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
