"""The ledger: AgentSlot.occupied is always the sum of the allocation rows, whoever writes them, in the same statement.

The CHECK on AgentSlot then makes over-allocation impossible. Rows are locked in the order of their ids first, so that
two statements never wait for each other in a circle.
"""

from django.db import migrations

FORWARD = """
CREATE FUNCTION berth_apply_allocations() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'allocations are inserted and deleted, never updated';
    END IF;
    PERFORM 1 FROM agents_agentslot AS slot
    WHERE (slot.agent_id, slot.slot_name) IN (SELECT agent_id, slot_name FROM changed)
    ORDER BY slot.id FOR NO KEY UPDATE;

    UPDATE agents_agentslot AS slot
    SET occupied = slot.occupied + CASE TG_OP WHEN 'INSERT' THEN sums.amount ELSE -sums.amount END
    FROM (SELECT agent_id, slot_name, sum(amount) AS amount FROM changed GROUP BY agent_id, slot_name) AS sums
    WHERE slot.agent_id = sums.agent_id AND slot.slot_name = sums.slot_name;

    IF TG_OP = 'INSERT' AND EXISTS (
        SELECT 1 FROM changed LEFT JOIN agents_agentslot AS slot USING (agent_id, slot_name) WHERE slot.id IS NULL
    ) THEN
        RAISE EXCEPTION 'allocation of a slot that its agent does not have' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER berth_allocations_added AFTER INSERT ON sessions_app_kernelallocation
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION berth_apply_allocations();
CREATE TRIGGER berth_allocations_removed AFTER DELETE ON sessions_app_kernelallocation
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION berth_apply_allocations();
CREATE TRIGGER berth_allocations_fixed BEFORE UPDATE ON sessions_app_kernelallocation
    FOR EACH STATEMENT EXECUTE FUNCTION berth_apply_allocations();
"""

BACKWARD = """
DROP TRIGGER berth_allocations_fixed ON sessions_app_kernelallocation;
DROP TRIGGER berth_allocations_removed ON sessions_app_kernelallocation;
DROP TRIGGER berth_allocations_added ON sessions_app_kernelallocation;
DROP FUNCTION berth_apply_allocations();
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0001_sessions"), ("agents", "0001_machines")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
