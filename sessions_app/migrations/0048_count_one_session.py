"""Most statements change one session, or what one container holds: they are counted as they are. What many change is added up before it is
written, as before."""

from importlib import import_module

from django.db import migrations

before = import_module("sessions_app.migrations.0021_count_by_sums")

OF_NOW = "now.domain_id, now.project_id, now.owner_id, now.keypair_id, now.requested_slots, now.kernel_count"
LIVE, PENDING = (
    "({0}.status NOT IN ('TERMINATED', 'CANCELLED', 'ERROR'))::int",
    "({0}.status = 'PENDING')::int",
)
SESSION = """
CREATE FUNCTION berth_count_session(
    its_domain bigint, its_project bigint, its_owner bigint, its_keypair bigint, slots jsonb, kernels integer,
    live integer, pending integer
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF pending <> 0 THEN
        PERFORM berth_change_use_of(
            its_domain, its_project, its_owner, its_keypair,
            ARRAY['sessions', 'pending_sessions'] || array_agg('pending_slots.' || key),
            ARRAY[live, pending]::bigint[] || array_agg(value::bigint * kernels * pending))
        FROM jsonb_each_text(slots);
    ELSIF live <> 0 THEN
        PERFORM berth_change_use_of(
            its_domain, its_project, its_owner, its_keypair, ARRAY['sessions'], ARRAY[live]::bigint[]);
    END IF;
END $$;
"""
SESSIONS = f"""
CREATE OR REPLACE FUNCTION berth_count_sessions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF (SELECT count(*) FROM added) = 1 THEN
            PERFORM berth_count_session({OF_NOW}, {LIVE.format("now")}, {PENDING.format("now")}) FROM added AS now;
        ELSE
            {before.count(before.ADDED)}
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        {before.count(before.REMOVED)}
    ELSE
        IF (SELECT count(*) FROM added) = 1 THEN
            PERFORM berth_count_session(
                {OF_NOW}, {LIVE.format("now")} - {LIVE.format("was")}, {PENDING.format("now")} - {PENDING.format("was")})
            FROM added AS now, removed AS was
            WHERE (now.requested_slots, now.kernel_count) = (was.requested_slots, was.kernel_count);
            IF FOUND THEN
                RETURN NULL;
            END IF;
        END IF;
        {before.count(f"{before.ADDED} UNION ALL {before.REMOVED}")}
    END IF;
    RETURN NULL;
END $$;
"""
HELD_OF_MANY = before.FORWARD.split("CREATE OR REPLACE FUNCTION berth_count_held()")[1]
HELD = f"""
CREATE OR REPLACE FUNCTION berth_count_held(){HELD_OF_MANY}
""".replace(
    "BEGIN",
    """BEGIN
    IF (SELECT count(DISTINCT kernel_id) FROM changed) = 1 THEN
        PERFORM berth_change_use_of(
            session.domain_id, session.project_id, session.owner_id, session.keypair_id,
            array_agg('slots.' || changed.slot_name),
            array_agg(CASE TG_OP WHEN 'INSERT' THEN changed.amount ELSE -changed.amount END))
        FROM changed
        JOIN sessions_app_kernel AS kernel ON kernel.id = changed.kernel_id
        JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
        GROUP BY session.id;
        RETURN NULL;
    END IF;""",
    1,
)
SESSIONS_BEFORE = before.FORWARD.split("CREATE FUNCTION berth_refuse_new_owner()")[0]
BACKWARD = f"""
{SESSIONS_BEFORE}
CREATE OR REPLACE FUNCTION berth_count_held(){HELD_OF_MANY}
DROP FUNCTION berth_count_session(bigint, bigint, bigint, bigint, jsonb, integer, integer, integer);
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0047_ledger_in_one_pass"), ("accounts", "0027_use_of_one_owner")]

    operations = [migrations.RunSQL(SESSION + SESSIONS + HELD, BACKWARD)]
