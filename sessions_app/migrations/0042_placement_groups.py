from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0046_device_use"),
    ]

    operations = [
        migrations.AddField(
            model_name="computesession",
            name="gang",
            field=models.CharField(
                db_default="anywhere",
                default="anywhere",
                help_text="Where its containers may be.",
                max_length=12,
            ),
        ),
        migrations.AddField(
            model_name="computesession",
            name="placement_group",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Sessions of its owner in its project that it is placed beside; empty: those of its array.",
                max_length=64,
            ),
        ),
        migrations.AddField(
            model_name="computesession",
            name="placement_rule",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="How it is placed beside them.",
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="computesession",
            constraint=models.CheckConstraint(
                condition=Q(gang__in=["anywhere", "one_machine", "spread"]), name="session_gang_is_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="computesession",
            constraint=models.CheckConstraint(
                condition=Q(placement_group="", placement_rule="")
                | (
                    Q(placement_rule__in=["spread", "pack", "strict_spread", "strict_pack"])
                    & (~Q(placement_group="") | Q(array__isnull=False))
                ),
                name="session_placement_rule_of_a_group",
            ),
        ),
        migrations.AddIndex(
            model_name="computesession",
            index=models.Index(
                fields=["created_at"],
                condition=Q(ended_at=None) & ~Q(placement_rule=""),
                name="session_placed_beside",
            ),
        ),
    ]
