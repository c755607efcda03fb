"""Rename models for what they are; their tables keep the names."""

import django.db.models.deletion
from django.db import migrations, models

RENAMED = {"AppDoor": "AssignedPort", "AppTicket": "AppGrant", "Mooring": "PooledNetwork"}


def session_key(related_name: str, *, null: bool = False) -> models.ForeignKey:
    return models.ForeignKey(
        null=null,
        on_delete=django.db.models.deletion.CASCADE,
        related_name=related_name,
        to="sessions_app.computesession",
    )


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0023_no_run_state"),
        ("sessions_app", "0001_squashed_0063_drop_input_changes"),
    ]

    operations = [
        *[
            operation
            for old, new in RENAMED.items()
            for operation in (
                migrations.AlterModelTable(old, f"sessions_app_{old.lower()}"),
                migrations.RenameModel(old, new),
            )
        ],
        migrations.AlterField("assignedport", "session", session_key("assigned_ports")),
        migrations.AlterField("appgrant", "session", session_key("app_grants")),
        migrations.AlterField("poolednetwork", "session", session_key("pooled_networks", null=True)),
        migrations.AlterField(
            "poolednetwork",
            "agent",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="pooled_networks",
                to="agents.agent",
            ),
        ),
        migrations.RenameField("appgrant", "door_port", "app_port"),
        migrations.RenameField("applogin", "door_port", "app_port"),
    ]
