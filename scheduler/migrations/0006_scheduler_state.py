"""The run state of the scheduler gets a row of its own, beside each resource group that has some."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

COPY = """
INSERT INTO scheduler_schedulerstate (group_id, epoch, last_agent_id, head_ids, gathered)
SELECT id, epoch, last_agent_id, head_ids, gathered FROM agents_resourcegroup ORDER BY id
"""
COPY_BACK = """
UPDATE agents_resourcegroup
SET epoch = state.epoch, last_agent_id = state.last_agent_id, head_ids = state.head_ids, gathered = state.gathered
FROM scheduler_schedulerstate AS state WHERE state.group_id = agents_resourcegroup.id
"""


class Migration(migrations.Migration):
    dependencies = [("agents", "0022_standard_words"), ("scheduler", "0005_small_use_is_none")]

    operations = [
        migrations.CreateModel(
            name="SchedulerState",
            fields=[
                (
                    "group",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="scheduler_state",
                        serialize=False,
                        to="agents.resourcegroup",
                    ),
                ),
                (
                    "epoch",
                    models.BigIntegerField(
                        default=0, help_text="Number of committed plans and of changes that discard plans."
                    ),
                ),
                (
                    "last_agent_id",
                    models.BigIntegerField(
                        default=0,
                        help_text="Agent that was given a container last; round-robin goes on behind it.",
                    ),
                ),
                (
                    "head_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(),
                        default=list,
                        help_text="Waiting sessions for which capacity was reserved, in the order in which they are tried first.",
                        size=None,
                    ),
                ),
                (
                    "gathered",
                    models.JSONField(
                        default=list,
                        help_text="Where capacity is gathered for sessions whose start cannot be predicted.",
                    ),
                ),
            ],
        ),
        migrations.RunSQL(COPY, COPY_BACK),
    ]
