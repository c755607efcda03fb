"""Rules of groups for networks and storage of accelerators, and devices that an engine could not give."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0027_sharing_rules"),
    ]

    operations = [
        migrations.AddField(
            model_name="resourcegroup",
            name="allows_gpudirect_storage",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Sessions with accelerators get the nvidia-fs devices of their machine, which read and write its disks directly.",
                verbose_name="GPUDirect Storage",
            ),
        ),
        migrations.AddField(
            model_name="resourcegroup",
            name="allows_rdma",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Sessions with accelerators get the InfiniBand and RoCE devices of their machine (also GDRCopy), and may lock any amount of memory. Traffic over them is not separated between sessions.",
                verbose_name="RDMA",
            ),
        ),
        migrations.AlterField(
            model_name="agentdevice",
            name="withheld",
            field=models.CharField(
                blank=True,
                choices=[
                    ("", "Nothing"),
                    ("busy", "Used outside Berth"),
                    ("quarantine", "Ill"),
                    ("administrator", "By an administrator"),
                    ("partitioned", "Split into partitions, or about to be"),
                    ("helper", "What limits its shares is missing"),
                    ("unavailable", "Its engine could not give it to a session"),
                ],
                db_default="",
                default="",
                editable=False,
                max_length=20,
            ),
        ),
    ]
