"""What a statement that changes one session counts is read by one query: each that a trigger asks costs as much as two rows of the ledger."""

from importlib import import_module

from django.db import migrations

before = import_module("sessions_app.migrations.0021_count_by_sums")
single = import_module("sessions_app.migrations.0048_count_one_session")

ADD = "ignored := berth_use(its.domain_id, its.project_id, its.owner_id, its.keypair_id, its.resources, its.amounts);"
READ = """
        SELECT now.domain_id, now.project_id, now.owner_id, now.keypair_id,
            ARRAY['sessions', 'pending_sessions'] || slots.names AS resources,
            ARRAY[live.change, pending.change]::bigint[] || slots.amounts AS amounts,
            {alone} AS is_alone, live.change <> 0 OR pending.change <> 0 AS changes
        INTO its
        FROM {rows}, LATERAL (SELECT {live}) AS live (change), LATERAL (SELECT {pending}) AS pending (change), LATERAL (
            SELECT array_agg('pending_slots.' || key) AS names, array_agg(value::bigint * now.kernel_count * pending.change) AS amounts
            FROM jsonb_each_text(now.requested_slots)
        ) AS slots
        LIMIT 1;"""
LIVE, PENDING = single.LIVE, single.PENDING
ONE_ADDED = READ.format(
    alone="(SELECT count(*) FROM added) = 1",
    rows="added AS now",
    live=LIVE.format("now"),
    pending=PENDING.format("now"),
)
ONE_CHANGED = READ.format(
    alone="""(SELECT count(*) FROM added) = 1
                AND (now.requested_slots, now.kernel_count) = (was.requested_slots, was.kernel_count)""",
    rows="added AS now, removed AS was",
    live=f"{LIVE.format('now')} - {LIVE.format('was')}",
    pending=f"{PENDING.format('now')} - {PENDING.format('was')}",
)
FORWARD = f"""
CREATE OR REPLACE FUNCTION berth_count_sessions() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    its record;  -- what one session changes, or holds
    ignored boolean;  -- an expression is asked faster than a query
BEGIN
    IF TG_OP = 'INSERT' THEN{ONE_ADDED}
        IF its.is_alone THEN
            {ADD}
        ELSE
            {before.count(before.ADDED)}
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        {before.count(before.REMOVED)}
    ELSE{ONE_CHANGED}
        IF NOT its.is_alone THEN
            {before.count(f"{before.ADDED} UNION ALL {before.REMOVED}")}
        ELSIF its.changes THEN
            {ADD}
        END IF;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION berth_count_held(){
    single.HELD_OF_MANY.replace(
        "BEGIN",
        f'''DECLARE
    its record;  -- what one session changes, or holds
    ignored boolean;  -- an expression is asked faster than a query
BEGIN
    SELECT session.domain_id, session.project_id, session.owner_id, session.keypair_id, part.* INTO its
    FROM (
        SELECT count(DISTINCT kernel_id) = 1 AS is_alone, (array_agg(kernel_id))[1] AS kernel_id,
            array_agg('slots.' || slot_name) AS resources,
            array_agg(CASE TG_OP WHEN 'INSERT' THEN amount ELSE -amount END) AS amounts
        FROM changed
    ) AS part
    JOIN sessions_app_kernel AS kernel ON kernel.id = part.kernel_id
    JOIN sessions_app_computesession AS session ON session.id = kernel.session_id;
    IF its.is_alone THEN
        {ADD}
        RETURN NULL;
    END IF;''',
        1,
    )
}
DROP FUNCTION berth_count_session(bigint, bigint, bigint, bigint, jsonb, integer, integer, integer);
DROP FUNCTION berth_change_use_of(bigint, bigint, bigint, bigint, text[], bigint[]);
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0049_terms"), ("accounts", "0028_use_in_one_statement")]

    operations = [
        migrations.RunSQL(
            FORWARD,
            import_module("accounts.migrations.0027_use_of_one_owner").FORWARD
            + single.SESSION
            + single.SESSIONS
            + single.HELD,
        )
    ]
