"""What a vendor's description says of a device, why it is withheld, and what the scheduler asks of agents."""

from django.db import migrations, models
from django.db.models import Q


def text(length: int) -> models.CharField:
    return models.CharField(blank=True, db_default="", default="", max_length=length)


WITHHELD = models.CharField(
    blank=True,
    choices=[
        ("", "Nothing"),
        ("busy", "Used outside Berth"),
        ("quarantine", "Ill"),
        ("administrator", "By an administrator"),
        ("partitioned", "Split into partitions, or about to be"),
        ("helper", "What limits its shares is missing"),
    ],
    db_default="",
    default="",
    editable=False,
    max_length=20,
)


def hidden(length: int) -> models.CharField:
    return models.CharField(blank=True, db_default="", default="", editable=False, max_length=length)


class Migration(migrations.Migration):
    dependencies = [("agents", "0023_no_run_state")]

    operations = [
        migrations.AddField(
            "agent", "device_mem_bytes", models.BigIntegerField(db_default=0, default=0, editable=False)
        ),
        migrations.AddField(
            "agent",
            "device_api_version",
            models.PositiveIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField("agentdevice", "vendor", text(40)),
        migrations.AddField("agentdevice", "pci_address", text(40)),
        migrations.AddField("agentdevice", "parent_id", text(128)),
        migrations.AddField("agentdevice", "profile", text(40)),
        migrations.AddField(
            "agentdevice", "facts", models.JSONField(blank=True, db_default={}, default=dict)
        ),
        migrations.AddField("agentdevice", "driver", text(60)),
        migrations.AddField(
            "agentdevice", "api_version", models.PositiveIntegerField(db_default=0, default=0)
        ),
        migrations.AddField("agentdevice", "withheld", WITHHELD),
        migrations.AddField("agentdevice", "withheld_because", hidden(500)),
        migrations.AddField("agentdevice", "withheld_since", models.DateTimeField(editable=False, null=True)),
        migrations.AddField("agentdevice", "warning", hidden(500)),
        migrations.AddField(
            "agentdevice",
            "is_usable",
            models.GeneratedField(
                db_persist=True,
                expression=Q(("is_present", True), ("withheld", "")),
                output_field=models.BooleanField(),
            ),
        ),
    ]
