"""Keep whose parts a device of MPS has; the database forgets it with the last part."""

import django.db.models.deletion
from django.db import migrations, models

FORWARD = """
    CREATE FUNCTION berth_forget_sharing_project() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.sharing_project_id := NULL;
        RETURN NEW;
    END $$;
    CREATE TRIGGER berth_device_is_empty BEFORE UPDATE OF occupied ON agents_agentdevice
        FOR EACH ROW WHEN (NEW.occupied = 0 AND NEW.sharing_project_id IS NOT NULL)
        EXECUTE FUNCTION berth_forget_sharing_project();
"""
BACKWARD = """
    DROP TRIGGER berth_device_is_empty ON agents_agentdevice;
    DROP FUNCTION berth_forget_sharing_project();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0035_name_impersonation"),
        ("agents", "0033_certificate_authorities"),
    ]

    operations = [
        migrations.AddField(
            model_name="agentdevice",
            name="sharing_project",
            field=models.ForeignKey(
                db_index=False,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="accounts.project",
            ),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
