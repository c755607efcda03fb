"""Add over-commit factors of groups, and the guard of the allocation ledger that takes them into
account.

The guard was a CHECK, which rejects even releases while more is allocated than allowed. The trigger
rejects increases only: over-commit can be reduced while allocated, and nothing starts until enough
sessions have ended.
"""

from decimal import Decimal

import django.core.validators
from django.db import migrations, models
from django.db.models import Q

FORWARD = """
CREATE FUNCTION berth_refuse_overfull() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'slot % of agent % has % and promises % more: % are too much',
        NEW.slot_name, NEW.agent_id, NEW.capacity, NEW.surplus, NEW.occupied
        USING ERRCODE = 'check_violation', CONSTRAINT = 'agent_slot_not_overfull', TABLE = 'agents_agentslot';
END $$;
CREATE TRIGGER berth_slot_not_overfull BEFORE UPDATE OF occupied ON agents_agentslot FOR EACH ROW
    WHEN (NEW.occupied > OLD.occupied AND NEW.occupied > NEW.capacity + NEW.surplus)
    EXECUTE FUNCTION berth_refuse_overfull();
"""
BACKWARD = """
DROP TRIGGER berth_slot_not_overfull ON agents_agentslot;
DROP FUNCTION berth_refuse_overfull();
UPDATE agents_agentslot SET capacity = occupied WHERE occupied > capacity;
"""


def _factor(name: str, title: str, help_text: str) -> migrations.AddField:
    column = models.DecimalField(
        db_default=Decimal(1),
        decimal_places=2,
        default=Decimal(1),
        help_text=help_text,
        max_digits=4,
        validators=[
            django.core.validators.MinValueValidator(1),
            django.core.validators.MaxValueValidator(10),
        ],
        verbose_name=title,
    )
    return migrations.AddField("resourcegroup", name, column)


class Migration(migrations.Migration):
    dependencies = [("agents", "0010_room_for_occupied")]

    operations = [
        _factor(
            "cpu_overcommit",
            "CPU overcommit",
            "Sessions together may hold so many times the cores of a machine. One gets no more than it has.",
        ),
        _factor(
            "mem_overcommit",
            "Memory overcommit",
            "The same of memory. Where sessions then use more than there is, some of them are killed.",
        ),
        migrations.AddConstraint(
            "resourcegroup",
            models.CheckConstraint(
                condition=Q(
                    cpu_overcommit__gte=1,
                    cpu_overcommit__lte=10,
                    mem_overcommit__gte=1,
                    mem_overcommit__lte=10,
                ),
                name="resource_group_overcommits_up_to_ten_times",
            ),
        ),
        migrations.AddField(
            "agentslot", "surplus", models.BigIntegerField(db_default=0, default=0, editable=False)
        ),
        migrations.RemoveConstraint("agentslot", "agent_slot_not_overfull"),
        migrations.RunSQL(FORWARD, BACKWARD),
        migrations.AddConstraint(
            "agentslot",
            models.CheckConstraint(
                condition=Q(occupied__gte=0, surplus__gte=0), name="agent_slot_amounts_not_negative"
            ),
        ),
    ]
