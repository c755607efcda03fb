"""On which cores a kernel runs is of what it holds of its machine, and stands there: whoever looks which cores are used reads the
ledger alone."""

from django.db import migrations, models

# The ledger refuses updates, which would not be counted; these change nothing that is.
FORWARD = """
ALTER TABLE sessions_app_kernelallocation DISABLE TRIGGER berth_allocations_fixed;
UPDATE sessions_app_kernelallocation AS held SET cpuset = kernel.cpuset FROM sessions_app_kernel AS kernel
WHERE kernel.id = held.kernel_id AND held.slot_name = 'cpu' AND kernel.cpuset <> '';
ALTER TABLE sessions_app_kernelallocation ENABLE TRIGGER berth_allocations_fixed;
"""
BACKWARD = """
UPDATE sessions_app_kernel AS kernel SET cpuset = held.cpuset FROM sessions_app_kernelallocation AS held
WHERE kernel.id = held.kernel_id AND held.slot_name = 'cpu' AND held.cpuset <> '';
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0058_after_arrays")]

    operations = [
        migrations.AddField(
            model_name="kernelallocation",
            name="cpuset",
            field=models.CharField(blank=True, db_default="", default="", editable=False, max_length=1024),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
        migrations.RemoveField(model_name="kernel", name="cpuset"),
    ]
