"""Updates of many sessions that change nothing that is counted cost no pairing of their rows: a join of what was with what is
was planned once for few rows, and took time by the square for many."""

from django.db import migrations

COUNTED = "id, domain_id, project_id, owner_id, keypair_id, status, requested_slots, kernel_count"
OWNERS = "id, domain_id, project_id, owner_id, keypair_id"
USE = """LATERAL berth_session_use(
            {0}.domain_id, {0}.project_id, {0}.owner_id, {0}.keypair_id,
            {0}.status, {0}.requested_slots, {0}.kernel_count) AS part"""

COUNT = """
CREATE OR REPLACE FUNCTION berth_count_sessions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(part.amount))
        FROM added, {added};
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(-part.amount))
        FROM removed, {removed};
    ELSE
        {update}
    END IF;
    RETURN NULL;
END $$;
"""

BY_DIFFERENCE = f"""IF EXISTS (SELECT {OWNERS} FROM added EXCEPT SELECT {OWNERS} FROM removed) THEN
            RAISE EXCEPTION 'a session stays whose it is: it is counted there';
        END IF;
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(part.amount))
        FROM (
            SELECT part.level, part.scope_id, part.resource, part.amount
            FROM (SELECT {COUNTED} FROM added EXCEPT SELECT {COUNTED} FROM removed) AS now,
            {USE.format("now")}
            UNION ALL
            SELECT part.level, part.scope_id, part.resource, -part.amount
            FROM (SELECT {COUNTED} FROM removed EXCEPT SELECT {COUNTED} FROM added) AS was,
            {USE.format("was")}
        ) AS part;"""

BY_JOIN = f"""IF EXISTS (
            SELECT 1 FROM added JOIN removed USING (id)
            WHERE (added.domain_id, added.project_id, added.owner_id, added.keypair_id) IS DISTINCT FROM
                  (removed.domain_id, removed.project_id, removed.owner_id, removed.keypair_id)
        ) THEN
            RAISE EXCEPTION 'a session stays whose it is: it is counted there';
        END IF;
        PERFORM berth_change_use(
            array_agg(part.level), array_agg(part.scope_id), array_agg(part.resource), array_agg(part.amount))
        FROM (
            SELECT part.level, part.scope_id, part.resource, part.amount
            FROM added JOIN removed USING (id), {USE.format("added")}
            WHERE added.status <> removed.status
            UNION ALL
            SELECT part.level, part.scope_id, part.resource, -part.amount
            FROM added JOIN removed USING (id), {USE.format("removed")}
            WHERE added.status <> removed.status
        ) AS part;"""


def count(update: str) -> str:
    return COUNT.format(added=USE.format("added"), removed=USE.format("removed"), update=update)


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0017_writers_of_personal_files")]

    operations = [migrations.RunSQL(count(BY_DIFFERENCE), count(BY_JOIN))]
