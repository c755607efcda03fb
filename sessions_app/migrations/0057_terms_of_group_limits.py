"""Limits of a resource group are among what requests are judged by (`0049_terms`)."""

from importlib import import_module

from django.db import migrations

TABLE = "agents_resourcegroup"
COLUMNS = import_module("sessions_app.migrations.0049_terms").COLUMNS[TABLE]
TRIGGER = f"""
DROP TRIGGER berth_note_terms ON {TABLE};
CREATE TRIGGER berth_note_terms AFTER INSERT OR DELETE OR UPDATE OF {{columns}} ON {TABLE}
FOR EACH STATEMENT EXECUTE FUNCTION berth_note_terms();
"""


class Migration(migrations.Migration):
    dependencies = (("sessions_app", "0056_gap_of_use"), ("agents", "0019_group_limits"))
    operations = (
        migrations.RunSQL(
            TRIGGER.format(columns=", ".join((*COLUMNS, "limits"))),
            TRIGGER.format(columns=", ".join(COLUMNS)),
        ),
    )
