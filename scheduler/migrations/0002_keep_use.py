"""What ended sessions held is kept, decayed, in the statement that removes their allocation rows (ADR 0035). What was held before
this runs and has ended does not count."""

from django.db import migrations

FORWARD = """
-- What is left of 1 after this time. 200 half-lives are all time, and keep the power from underflowing.
CREATE FUNCTION berth_decay(age interval, half_life_s integer) RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
    SELECT power(2::double precision,
                 -least(200, greatest(0, extract(epoch FROM age)::double precision) / half_life_s))
$$;

CREATE FUNCTION berth_keep_use() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp();
BEGIN
    INSERT INTO scheduler_decayeduse AS past (group_id, project_id, user_id, slot_name, average, as_of)
    SELECT resources.id, session.project_id, session.owner_id, changed.slot_name,
           sum(changed.amount * (1 - berth_decay(until - changed.held_since, resources.usage_half_life_s))), until
    FROM changed
    JOIN agents_agent AS agent ON agent.id = changed.agent_id
    JOIN agents_resourcegroup AS resources ON resources.id = agent.resource_group_id
    JOIN sessions_app_kernel AS kernel ON kernel.id = changed.kernel_id
    JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
    GROUP BY resources.id, session.project_id, session.owner_id, changed.slot_name
    ORDER BY resources.id, session.project_id, session.owner_id, changed.slot_name
    -- Whichever of two comes first: each is as old as the later one makes it.
    ON CONFLICT (group_id, project_id, user_id, slot_name) DO UPDATE SET
        as_of = greatest(past.as_of, EXCLUDED.as_of),
        average = (
            SELECT CASE WHEN kept.average < 1e-6 THEN 0 ELSE kept.average END
            FROM (
                SELECT past.average * berth_decay(EXCLUDED.as_of - past.as_of, usage_half_life_s)
                       + EXCLUDED.average * berth_decay(past.as_of - EXCLUDED.as_of, usage_half_life_s) AS average
                FROM agents_resourcegroup WHERE id = past.group_id
            ) AS kept
        );
    RETURN NULL;
END $$;

-- Its name comes after those of the limits and of the hours, so that rows are locked in one order (ADR 0008).
CREATE TRIGGER berth_use_removed AFTER DELETE ON sessions_app_kernelallocation
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION berth_keep_use();

-- Another half-life counts from now on: what was kept until now decayed by the one before.
CREATE FUNCTION berth_rebase_use() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp();
BEGIN
    UPDATE scheduler_decayeduse AS past
    SET average = past.average * berth_decay(until - past.as_of, OLD.usage_half_life_s),
        as_of = greatest(past.as_of, until)
    FROM (
        SELECT id FROM scheduler_decayeduse WHERE group_id = NEW.id
        ORDER BY project_id, user_id, slot_name FOR NO KEY UPDATE
    ) AS held
    WHERE held.id = past.id;
    RETURN NULL;
END $$;

CREATE TRIGGER berth_half_life_changed AFTER UPDATE OF usage_half_life_s ON agents_resourcegroup
    FOR EACH ROW WHEN (OLD.usage_half_life_s IS DISTINCT FROM NEW.usage_half_life_s)
    EXECUTE FUNCTION berth_rebase_use();
"""

BACKWARD = """
DROP TRIGGER berth_half_life_changed ON agents_resourcegroup;
DROP TRIGGER berth_use_removed ON sessions_app_kernelallocation;
DROP FUNCTION berth_rebase_use();
DROP FUNCTION berth_keep_use();
DROP FUNCTION berth_decay(interval, integer);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0001_shares"),
        ("sessions_app", "0024_idle_sessions"),
    ]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
