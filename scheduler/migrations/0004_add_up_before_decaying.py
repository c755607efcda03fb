"""What ends is added up by who held it since when, before it is decayed: one power for many rows."""

from importlib import import_module

from django.db import migrations

before = import_module("scheduler.migrations.0002_keep_use").FORWARD
START, END = "CREATE FUNCTION berth_keep_use()", "-- Its name comes after"
BEFORE = before[before.index(START) : before.index(END)].replace(
    "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"
)

EACH = BEFORE[BEFORE.index("    SELECT resources.id") : BEFORE.index("    -- Whichever of two")]
ADDED_UP = """
    SELECT gone.group_id, gone.project_id, gone.owner_id, gone.slot_name,
           sum(gone.amount * (1 - berth_decay(until - gone.held_since, gone.half_life_s))), until
    FROM (
        SELECT resources.id AS group_id, resources.usage_half_life_s AS half_life_s, session.project_id, session.owner_id,
               changed.slot_name, changed.held_since, sum(changed.amount)::double precision AS amount
        FROM changed
        JOIN agents_agent AS agent ON agent.id = changed.agent_id
        JOIN agents_resourcegroup AS resources ON resources.id = agent.resource_group_id
        JOIN sessions_app_kernel AS kernel ON kernel.id = changed.kernel_id
        JOIN sessions_app_computesession AS session ON session.id = kernel.session_id
        GROUP BY resources.id, session.project_id, session.owner_id, changed.slot_name, changed.held_since
    ) AS gone
    GROUP BY gone.group_id, gone.project_id, gone.owner_id, gone.slot_name
    ORDER BY gone.group_id, gone.project_id, gone.owner_id, gone.slot_name
"""


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0003_kept_ticks")]

    operations = [migrations.RunSQL(BEFORE.replace(EACH, ADDED_UP), BEFORE)]
