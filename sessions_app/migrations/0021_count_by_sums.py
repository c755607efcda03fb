"""What many sessions change in the ledger of limits is summed up before it is written, by who pays, and rows that stay as they
were cancel out in the sums. Whose a session is, is asked only where somebody writes that."""

from importlib import import_module

from django.db import migrations

before = import_module("sessions_app.migrations.0018_count_changed_sessions")
ledger = import_module("sessions_app.migrations.0011_limit_ledger")

COUNTED = "domain_id, project_id, owner_id, keypair_id, requested_slots, kernel_count"
ROWS = f"""SELECT {COUNTED}, {{sign}}(status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR'))::int AS live,
                {{sign}}(status = 'PENDING')::int AS pending FROM {{table}}"""
CHANGE_USE = """PERFORM berth_change_use(
            array_agg(sums.level), array_agg(sums.scope_id), array_agg(sums.resource), array_agg(sums.amount))
        FROM ({sums}) AS sums;"""
BY_SCOPE = """
            SELECT scope.level, scope.id AS scope_id, part.resource, sum(part.amount)::bigint AS amount
            FROM part, LATERAL (VALUES ('domain', domain_id), ('project', project_id),
                                       ('user', owner_id), ('keypair', keypair_id)) AS scope (level, id)
            WHERE scope.id IS NOT NULL
            GROUP BY scope.level, scope.id, part.resource"""


def count(rows: str) -> str:
    return CHANGE_USE.format(
        sums=f"""
            WITH change AS (
                SELECT {COUNTED}, sum(live) AS live, sum(pending) AS pending FROM ({rows}) AS present
                GROUP BY {COUNTED} HAVING sum(live) <> 0 OR sum(pending) <> 0
            ), part AS (
                SELECT domain_id, project_id, owner_id, keypair_id, each.resource, sum(each.amount) AS amount
                FROM change, LATERAL (
                    SELECT 'sessions', live UNION ALL SELECT 'pending_sessions', pending
                    UNION ALL SELECT 'pending_slots.' || key, value::bigint * kernel_count * pending
                    FROM jsonb_each_text(requested_slots) WHERE pending <> 0
                ) AS each (resource, amount)
                GROUP BY domain_id, project_id, owner_id, keypair_id, each.resource
            ){BY_SCOPE}"""
    )


ADDED, REMOVED = ROWS.format(sign="", table="added"), ROWS.format(sign="-", table="removed")

FORWARD = f"""
CREATE OR REPLACE FUNCTION berth_count_sessions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        {count(ADDED)}
    ELSIF TG_OP = 'DELETE' THEN
        {count(REMOVED)}
    ELSE
        {count(f"{ADDED} UNION ALL {REMOVED}")}
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION berth_refuse_new_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a session stays whose it is: it is counted there';
END $$;
CREATE TRIGGER berth_session_keeps_owner
    BEFORE UPDATE OF domain_id, project_id, owner_id, keypair_id ON sessions_app_computesession
    FOR EACH ROW WHEN ((OLD.domain_id, OLD.project_id, OLD.owner_id, OLD.keypair_id)
        IS DISTINCT FROM (NEW.domain_id, NEW.project_id, NEW.owner_id, NEW.keypair_id))
    EXECUTE FUNCTION berth_refuse_new_owner();

CREATE OR REPLACE FUNCTION berth_count_held() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {
    CHANGE_USE.format(
        sums='''
            WITH part AS (
                SELECT session.domain_id, session.project_id, session.owner_id, session.keypair_id,
                       'slots.' || changed.slot_name AS resource,
                       sum(CASE TG_OP WHEN 'INSERT' THEN changed.amount ELSE -changed.amount END) AS amount
                FROM changed
                JOIN sessions_app_kernel AS kernel ON kernel.id = changed.kernel_id
                JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
                GROUP BY session.domain_id, session.project_id, session.owner_id, session.keypair_id, changed.slot_name
            )'''
        + BY_SCOPE
    )
}
    RETURN NULL;
END $$;
"""

HELD_BEFORE = ledger.FORWARD.split("CREATE FUNCTION berth_count_held()")[1].split("-- Their names")[0]
BACKWARD = f"""
CREATE OR REPLACE FUNCTION berth_count_held(){HELD_BEFORE}
DROP TRIGGER berth_session_keeps_owner ON sessions_app_computesession;
DROP FUNCTION berth_refuse_new_owner();
{before.count(before.BY_DIFFERENCE)}
"""


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0020_start_times"),
        ("accounts", "0025_limits_by_the_set"),
    ]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
