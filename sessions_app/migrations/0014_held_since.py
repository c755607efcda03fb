"""Since when a session holds what it holds, and what ended ones held, day by day (ADR 0027). What is held when this runs
counts from then on."""

import django.db.models.functions.datetime
from django.db import migrations, models

FORWARD = """
CREATE FUNCTION berth_record_hours() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp();
BEGIN
    INSERT INTO accounts_dayslots AS past (project_id, user_id, slot_name, day, held)
    SELECT session.project_id, session.owner_id, changed.slot_name, day.first::date,
           sum(changed.amount * (1000000 * extract(epoch FROM
               least(until AT TIME ZONE 'UTC', day.first + interval '1 day')
               - greatest(changed.held_since AT TIME ZONE 'UTC', day.first))))
    FROM changed
    JOIN sessions_app_kernel AS kernel ON kernel.id = changed.kernel_id
    JOIN sessions_app_computesession AS session ON session.id = kernel.session_id,
    LATERAL generate_series(
        date_trunc('day', changed.held_since AT TIME ZONE 'UTC'), until AT TIME ZONE 'UTC', interval '1 day'
    ) AS day (first)
    WHERE changed.held_since < until
    GROUP BY session.project_id, session.owner_id, changed.slot_name, day.first
    ORDER BY session.project_id, session.owner_id, changed.slot_name, day.first
    ON CONFLICT (project_id, user_id, slot_name, day) DO UPDATE SET held = past.held + EXCLUDED.held;
    RETURN NULL;
END $$;

-- Its name comes after that of the limits' trigger: their rows are locked first, and only one commit of a domain gets here.
CREATE TRIGGER berth_hours_removed AFTER DELETE ON sessions_app_kernelallocation
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION berth_record_hours();
"""

BACKWARD = """
DROP TRIGGER berth_hours_removed ON sessions_app_kernelallocation;
DROP FUNCTION berth_record_hours();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0012_budgets"),
        ("sessions_app", "0013_app_login_secrets"),
    ]

    operations = [
        migrations.AddField(
            model_name="kernelallocation",
            name="held_since",
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
