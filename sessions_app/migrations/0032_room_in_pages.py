"""Pages of tables whose rows change a few times in a life keep room for the changed row: then no index is written (ADR 0043).
And hours are added up before they are spread over days."""

from importlib import import_module

from django.db import migrations

before = import_module("sessions_app.migrations.0014_held_since")

FORWARD = """
ALTER TABLE sessions_app_computesession SET (fillfactor = 60);
ALTER TABLE sessions_app_kernel SET (fillfactor = 60);

CREATE OR REPLACE FUNCTION berth_record_hours() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp();
BEGIN
    INSERT INTO accounts_dayslots AS past (project_id, user_id, slot_name, day, held)
    SELECT gone.project_id, gone.owner_id, gone.slot_name, day.first::date,
           sum(gone.amount * (1000000 * extract(epoch FROM
               least(until AT TIME ZONE 'UTC', day.first + interval '1 day')
               - greatest(gone.held_since AT TIME ZONE 'UTC', day.first))))
    FROM (
        SELECT session.project_id, session.owner_id, changed.slot_name, changed.held_since, sum(changed.amount) AS amount
        FROM changed
        JOIN sessions_app_kernel AS kernel ON kernel.id = changed.kernel_id
        JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
        WHERE changed.held_since < until
        GROUP BY session.project_id, session.owner_id, changed.slot_name, changed.held_since
    ) AS gone,
    LATERAL generate_series(
        date_trunc('day', gone.held_since AT TIME ZONE 'UTC'), until AT TIME ZONE 'UTC', interval '1 day'
    ) AS day (first)
    GROUP BY gone.project_id, gone.owner_id, gone.slot_name, day.first
    ORDER BY gone.project_id, gone.owner_id, gone.slot_name, day.first
    ON CONFLICT (project_id, user_id, slot_name, day) DO UPDATE SET held = past.held + EXCLUDED.held;
    RETURN NULL;
END $$;
"""

HOURS_BEFORE = before.FORWARD.split("CREATE FUNCTION berth_record_hours()")[1].split("-- Its name")[0]
BACKWARD = f"""
CREATE OR REPLACE FUNCTION berth_record_hours(){HOURS_BEFORE}
ALTER TABLE sessions_app_kernel RESET (fillfactor);
ALTER TABLE sessions_app_computesession RESET (fillfactor);
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0031_fewer_indexes")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
