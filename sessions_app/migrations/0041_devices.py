"""Which devices a kernel holds: AgentDevice.occupied is always the sum of the shares that allocation rows have of it, in the same
statement (ADR 0041). Rows are locked in one order: slots of agents, then devices. Where rows name no devices it costs a look at them."""

from importlib import import_module

import django.contrib.postgres.fields
from django.db import migrations, models

before = import_module("sessions_app.migrations.0002_ledger").FORWARD
START, END = "CREATE FUNCTION berth_apply_allocations()", "CREATE TRIGGER berth_allocations_added"
BEFORE = before[before.index(START) : before.index(END)].replace(
    "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"
)
BODY_END = "    RETURN NULL;\nEND $$;"
DEVICES = """
    IF EXISTS (SELECT 1 FROM changed WHERE devices <> '{}') THEN
        PERFORM 1 FROM agents_agentdevice AS device
        WHERE device.id IN (SELECT each.id FROM changed, unnest(changed.devices) AS each (id))
        ORDER BY device.id FOR NO KEY UPDATE;

        WITH share AS MATERIALIZED (
            SELECT each.id, changed.agent_id, changed.slot_name,
                   sum(changed.amount / cardinality(changed.devices))::integer AS amount
            FROM changed, unnest(changed.devices) AS each (id)
            GROUP BY each.id, changed.agent_id, changed.slot_name
        ), written AS (
            UPDATE agents_agentdevice AS device
            SET occupied = device.occupied + CASE TG_OP WHEN 'INSERT' THEN share.amount ELSE -share.amount END
            FROM share
            WHERE device.id = share.id AND (TG_OP = 'DELETE' OR (
                device.agent_id = share.agent_id AND device.slot_name = share.slot_name AND device.is_present))
            RETURNING device.id
        )
        SELECT (SELECT count(*) FROM share) - (SELECT count(*) FROM written) INTO unknown;
        IF TG_OP = 'INSERT' AND unknown <> 0 THEN
            RAISE EXCEPTION 'allocation of devices that its agent does not have' USING ERRCODE = 'check_violation';
        END IF;
    END IF;
"""
assert BODY_END in BEFORE
AFTER = BEFORE.replace(BODY_END, DEVICES + BODY_END).replace(
    "\nBEGIN", "\nDECLARE\n    unknown bigint;\nBEGIN", 1
)
# One device gives a share of itself, several all of themselves.
SHARES = """
ALTER TABLE sessions_app_kernelallocation ADD CONSTRAINT allocation_is_of_devices CHECK (
    cardinality(devices) = 0 OR (cardinality(devices) = 1 AND amount <= 1000) OR amount = 1000 * cardinality(devices)
);
"""
FORWARD = AFTER + SHARES
BACKWARD = f"""
ALTER TABLE sessions_app_kernelallocation DROP CONSTRAINT allocation_is_of_devices;
{BEFORE}
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0040_device_models"), ("agents", "0013_devices")]

    operations = [
        migrations.AddField(
            model_name="kernelallocation",
            name="devices",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.BigIntegerField(), db_default=[], default=list, editable=False, size=None
            ),
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
