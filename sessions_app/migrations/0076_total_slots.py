"""Count what containers of unlike sizes ask for while their session waits."""

from pathlib import Path

from django.db import migrations, models

LEDGER = (Path(__file__).with_name("sql") / "limit_ledger.sql").read_text()
NAME = "FUNCTION berth_count_sessions()"
BEFORE = f"CREATE OR REPLACE {NAME}{LEDGER.split(f'CREATE {NAME}')[1].split('END $$;')[0]}END $$;"
SLOTS = "coalesce({0}total_slots, {0}requested_slots)"
COUNT = "CASE WHEN {0}total_slots IS NULL THEN {0}kernel_count ELSE 1 END"
SHAPE = "{0}.requested_slots, {0}.kernel_count, {0}.total_slots"
ROW_OF_SESSION = f"\n{' ' * 24}"
"""Begin of the line after the columns, where rows of single sessions are read and not sums of them."""

REPLACED = (
    # one session
    (
        "value::bigint * now.kernel_count * pending.change",
        f"value::bigint * {COUNT.format('now.')} * pending.change",
    ),
    ("FROM jsonb_each_text(now.requested_slots)", f"FROM jsonb_each_text({SLOTS.format('now.')})"),
    (
        "(now.requested_slots, now.kernel_count) = (was.requested_slots, was.kernel_count)",
        f"({SHAPE.format('now')}) IS NOT DISTINCT FROM ({SHAPE.format('was')})",
    ),
    # many
    (
        f"requested_slots, kernel_count,{ROW_OF_SESSION}",
        f"{SLOTS.format('')} AS requested_slots, {COUNT.format('')} AS kernel_count,{ROW_OF_SESSION}",
    ),
)
# Sessions with roles that wait: the trigger corrects the ledger.
NOTE_TOTALS = """
UPDATE sessions_app_computesession AS session SET total_slots = sums.total
FROM (
    SELECT session_id, jsonb_object_agg(name, amount) AS total
    FROM (
        SELECT kernel.session_id, slot.name, sum(slot.amount::bigint) AS amount
        FROM sessions_app_kernel AS kernel
        JOIN sessions_app_computesession AS whole ON whole.id = kernel.session_id AND whole.ended_at IS NULL,
        LATERAL jsonb_each_text(coalesce(kernel.requested_slots, whole.requested_slots)) AS slot (name, amount)
        WHERE EXISTS (
            SELECT FROM sessions_app_kernel AS other
            WHERE other.session_id = whole.id AND other.requested_slots IS NOT NULL)
        GROUP BY kernel.session_id, slot.name
    ) AS part
    GROUP BY session_id
) AS sums
WHERE session.id = sums.session_id
"""


def counting_totals() -> str:
    """Return the trigger's function with `total_slots` in place of equal containers."""
    function = BEFORE
    for old, new in REPLACED:
        assert old in function, old
        function = function.replace(old, new)
    return function


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0075_storage_reach")]

    operations = [
        migrations.AddField(
            model_name="computesession",
            name="total_slots",
            field=models.JSONField(
                editable=False,
                help_text="Of all containers, if they are unlike; null: kernel_count times requested_slots.",
                null=True,
            ),
        ),
        migrations.RunSQL(counting_totals(), BEFORE),
        migrations.RunSQL(
            NOTE_TOTALS,
            "UPDATE sessions_app_computesession SET total_slots = NULL WHERE total_slots IS NOT NULL",
        ),
    ]
