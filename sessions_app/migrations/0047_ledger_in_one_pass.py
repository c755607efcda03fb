"""The ledger of slots and devices is held and written by one statement each, always by index: the function is planned once for a connection, for one
row or for thousands."""

from importlib import import_module

from django.db import migrations

before = import_module("sessions_app.migrations.0041_devices")

IN_ONE_PASS = """
CREATE OR REPLACE FUNCTION berth_apply_allocations() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    sign CONSTANT integer := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
    unknown bigint;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'allocations are inserted and deleted, never updated';
    END IF;
    WITH part AS MATERIALIZED (
        SELECT agent_id, slot_name, sum(amount)::bigint AS amount FROM changed GROUP BY agent_id, slot_name
    ), held AS MATERIALIZED (
        SELECT slot.id, part.amount FROM part
        JOIN agents_agentslot AS slot ON slot.agent_id = part.agent_id AND slot.slot_name = part.slot_name
        ORDER BY slot.id FOR NO KEY UPDATE OF slot
    ), written AS (
        UPDATE agents_agentslot AS slot SET occupied = slot.occupied + sign * held.amount
        FROM held WHERE slot.id = held.id RETURNING slot.id
    )
    SELECT (SELECT count(*) FROM part) - (SELECT count(*) FROM written) INTO unknown;
    IF sign > 0 AND unknown <> 0 THEN
        RAISE EXCEPTION 'allocation of a slot that its agent does not have' USING ERRCODE = 'check_violation';
    END IF;

    IF EXISTS (SELECT 1 FROM changed WHERE devices <> '{}') THEN
        WITH part AS MATERIALIZED (
            SELECT each.id, changed.agent_id, changed.slot_name,
                   sum(changed.amount / cardinality(changed.devices))::integer AS amount
            FROM changed, unnest(changed.devices) AS each (id)
            GROUP BY each.id, changed.agent_id, changed.slot_name
        ), held AS MATERIALIZED (
            SELECT device.id, part.amount FROM part JOIN agents_agentdevice AS device ON device.id = part.id
            WHERE sign < 0 OR (
                device.agent_id = part.agent_id AND device.slot_name = part.slot_name AND device.is_present)
            ORDER BY device.id FOR NO KEY UPDATE OF device
        ), written AS (
            UPDATE agents_agentdevice AS device SET occupied = device.occupied + sign * held.amount
            FROM held WHERE device.id = held.id RETURNING device.id
        )
        SELECT (SELECT count(*) FROM part) - (SELECT count(*) FROM written) INTO unknown;
        IF sign > 0 AND unknown <> 0 THEN
            RAISE EXCEPTION 'allocation of devices that its agent does not have' USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NULL;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0042_placement_groups"), ("agents", "0014_room_for_devices")]

    operations = [migrations.RunSQL(IN_ONE_PASS, before.AFTER)]
