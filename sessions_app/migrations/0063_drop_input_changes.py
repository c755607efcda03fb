"""Admission locks what it decides by: changes of these tables are noted no more, and nothing compares them with a snapshot."""

from importlib import import_module

from django.db import migrations

before = import_module("sessions_app.migrations.0049_terms")
group_limits = import_module("sessions_app.migrations.0057_terms_of_group_limits")
planned = import_module("sessions_app.migrations.0051_look_at_notes_by_index").Migration.operations[0]

TABLES = (*before.WHOLE, *before.COLUMNS)
FORWARD = (
    "DROP TRIGGER IF EXISTS berth_terms_stand ON sessions_app_computesession;\n"
    + "".join(f"DROP TRIGGER IF EXISTS berth_note_terms ON {table};\n" for table in TABLES)
    + "DROP FUNCTION IF EXISTS berth_demand_terms();\nDROP FUNCTION IF EXISTS berth_note_terms();\n"
)
BACKWARD = (
    before.FUNCTIONS + before.TRIGGERS + group_limits.Migration.operations[0].sql + f";\n{planned.sql};\n"
)


class Migration(migrations.Migration):
    dependencies = (
        ("sessions_app", "0062_max_runtime"),
        ("accounts", "0032_names_in_form_c"),
        ("agents", "0019_group_limits"),
    )
    operations = (migrations.RunSQL(FORWARD, BACKWARD), migrations.DeleteModel("TermsChange"))
