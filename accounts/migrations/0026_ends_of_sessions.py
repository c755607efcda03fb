from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0025_limits_by_the_set")]

    operations = [
        migrations.AddField(
            model_name="resourcepolicy",
            name="max_extension_s",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="resourcepolicy",
            name="max_extensions",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        # No form could set it before.
        migrations.RunSQL(
            "UPDATE accounts_resourcepolicy SET max_idle_s = NULL WHERE max_idle_s = 0",
            migrations.RunSQL.noop,
        ),
        migrations.AddConstraint(
            model_name="resourcepolicy",
            constraint=models.CheckConstraint(
                condition=models.Q(("max_idle_s", None), ("max_idle_s__gt", 0), _connector="OR"),
                name="policy_idle_is_time",
            ),
        ),
    ]
