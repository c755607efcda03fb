"""Whoever places kernels has locked their agents and the slots of these, in order, before anything is written (`scheduler.commit.plan_commit`): only who
releases locks them here. And of many kernels nothing is added up as if they were one, and the owner is looked up once for each."""

from importlib import import_module

from django.db import migrations

ledger = import_module("sessions_app.migrations.0047_ledger_in_one_pass").IN_ONE_PASS
counting = import_module("sessions_app.migrations.0050_count_in_one_query").FORWARD
START, END = "CREATE OR REPLACE FUNCTION berth_count_held()", "DROP FUNCTION"
HELD = counting[counting.index(START) : counting.index(END)]

OF_SLOTS = """
            SELECT agent_id, slot_name, sum(amount)::bigint AS amount FROM changed GROUP BY agent_id, slot_name"""
OF_DEVICES = """
            SELECT each.id, changed.agent_id, changed.slot_name,
                   sum(changed.amount / cardinality(changed.devices))::integer AS amount
            FROM changed, unnest(changed.devices) AS each (id)
            GROUP BY each.id, changed.agent_id, changed.slot_name"""
HOLD_ONCE = f"""
CREATE OR REPLACE FUNCTION berth_apply_allocations() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    unknown bigint;
BEGIN
    IF TG_OP = 'INSERT' THEN
        WITH part AS MATERIALIZED ({OF_SLOTS}
        ), written AS (
            UPDATE agents_agentslot AS slot SET occupied = slot.occupied + part.amount
            FROM part WHERE slot.agent_id = part.agent_id AND slot.slot_name = part.slot_name RETURNING slot.id
        )
        SELECT (SELECT count(*) FROM part) - (SELECT count(*) FROM written) INTO unknown;
        IF unknown <> 0 THEN
            RAISE EXCEPTION 'allocation of a slot that its agent does not have' USING ERRCODE = 'check_violation';
        END IF;
        IF EXISTS (SELECT 1 FROM changed WHERE devices <> '{{}}') THEN
            WITH part AS MATERIALIZED ({OF_DEVICES}
            ), written AS (
                UPDATE agents_agentdevice AS device SET occupied = device.occupied + part.amount
                FROM part WHERE device.id = part.id AND device.agent_id = part.agent_id
                    AND device.slot_name = part.slot_name AND device.is_present
                RETURNING device.id
            )
            SELECT (SELECT count(*) FROM part) - (SELECT count(*) FROM written) INTO unknown;
            IF unknown <> 0 THEN
                RAISE EXCEPTION 'allocation of devices that its agent does not have'
                USING ERRCODE = 'check_violation';
            END IF;
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        WITH part AS MATERIALIZED ({OF_SLOTS}
        ), held AS MATERIALIZED (
            SELECT slot.id, part.amount FROM part
            JOIN agents_agentslot AS slot ON slot.agent_id = part.agent_id AND slot.slot_name = part.slot_name
            ORDER BY slot.id FOR NO KEY UPDATE OF slot
        )
        UPDATE agents_agentslot AS slot SET occupied = slot.occupied - held.amount FROM held WHERE slot.id = held.id;
        IF EXISTS (SELECT 1 FROM changed WHERE devices <> '{{}}') THEN
            WITH part AS MATERIALIZED ({OF_DEVICES}
            ), held AS MATERIALIZED (
                SELECT device.id, part.amount FROM part JOIN agents_agentdevice AS device ON device.id = part.id
                ORDER BY device.id FOR NO KEY UPDATE OF device
            )
            UPDATE agents_agentdevice AS device SET occupied = device.occupied - held.amount
            FROM held WHERE device.id = held.id;
        END IF;
    ELSE
        RAISE EXCEPTION 'allocations are inserted and deleted, never updated';
    END IF;
    RETURN NULL;
END $$;
"""

# One kernel has a row for each slot: so many rows are of several.
OF_SEVERAL = 100
ALL, SOME = (
    "AS amounts\n        FROM changed\n",
    f"AS amounts\n        FROM (SELECT * FROM changed LIMIT {OF_SEVERAL}) AS few\n",
)
ALONE, ALONE_OF_FEW = (
    "count(DISTINCT kernel_id) = 1 AS is_alone",
    f"count(DISTINCT kernel_id) = 1 AND count(*) < {OF_SEVERAL} AS is_alone",
)
EACH_ROW = """SELECT session.domain_id, session.project_id, session.owner_id, session.keypair_id,
                       'slots.' || changed.slot_name AS resource,
                       sum(CASE TG_OP WHEN 'INSERT' THEN changed.amount ELSE -changed.amount END) AS amount
                FROM changed
                JOIN sessions_app_kernel AS kernel ON kernel.id = changed.kernel_id
                JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
                GROUP BY session.domain_id, session.project_id, session.owner_id, session.keypair_id, changed.slot_name
"""
EACH_KERNEL = """SELECT session.domain_id, session.project_id, session.owner_id, session.keypair_id,
                       'slots.' || slot.name AS resource,
                       sum(CASE TG_OP WHEN 'INSERT' THEN slot.amount ELSE -slot.amount END) AS amount
                FROM (
                    SELECT kernel_id, array_agg(slot_name) AS names, array_agg(amount) AS amounts
                    FROM changed GROUP BY kernel_id
                ) AS held
                JOIN sessions_app_kernel AS kernel ON kernel.id = held.kernel_id
                JOIN sessions_app_computesession AS session ON session.id = kernel.session_id,
                LATERAL unnest(held.names, held.amounts) AS slot (name, amount)
                GROUP BY session.domain_id, session.project_id, session.owner_id, session.keypair_id, slot.name
"""
assert HELD.count(ALL) == HELD.count(ALONE) == HELD.count(EACH_ROW) == 1
COUNT_EACH_ONCE = HELD.replace(ALL, SOME).replace(ALONE, ALONE_OF_FEW).replace(EACH_ROW, EACH_KERNEL)


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0054_thresholds_of_each_policy")]

    operations = [migrations.RunSQL(HOLD_ONCE + COUNT_EACH_ONCE, ledger + HELD)]
