"""What decayed to nearly nothing is nothing when the half-life changes, too, as where it is kept: multiplied again and again it would
become a number that PostgreSQL refuses."""

from django.db import migrations

REBASE = """
CREATE OR REPLACE FUNCTION berth_rebase_use() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp();
BEGIN
    UPDATE scheduler_decayeduse AS past
    SET average = CASE WHEN held.average < 1e-6 THEN 0 ELSE held.average END,
        as_of = greatest(past.as_of, until)
    FROM (
        SELECT id, average * berth_decay(until - as_of, OLD.usage_half_life_s) AS average
        FROM scheduler_decayeduse WHERE group_id = NEW.id
        ORDER BY project_id, user_id, slot_name FOR NO KEY UPDATE
    ) AS held
    WHERE held.id = past.id;
    RETURN NULL;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0004_add_up_before_decaying")]

    operations = [
        migrations.RunSQL(REBASE, migrations.RunSQL.noop),
        migrations.RunSQL(
            "UPDATE scheduler_decayeduse SET average = 0 WHERE average > 0 AND average < 1e-6",
            migrations.RunSQL.noop,
        ),
    ]
