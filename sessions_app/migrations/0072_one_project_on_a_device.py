"""Refuse allocations of devices that sessions of another project share by MPS."""

from django.db import migrations

FORWARD = """
    CREATE FUNCTION berth_refuse_other_projects() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (
            SELECT FROM changed CROSS JOIN LATERAL unnest(changed.devices) AS each (id)
            JOIN agents_agentdevice AS device ON device.id = each.id
            JOIN sessions_app_kernel AS kernel ON kernel.id = changed.kernel_id
            JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
            WHERE device.sharing_project_id <> session.project_id
        ) THEN
            RAISE EXCEPTION 'allocation of a device that another project shares' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER berth_device_is_of_one_project AFTER INSERT ON sessions_app_kernelallocation
        REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION berth_refuse_other_projects();
"""
BACKWARD = """
    DROP TRIGGER berth_device_is_of_one_project ON sessions_app_kernelallocation;
    DROP FUNCTION berth_refuse_other_projects();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0034_device_sharing_project"),
        ("sessions_app", "0071_device_activity"),
    ]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
