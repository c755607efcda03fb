"""Sessions that are queued again once if a machine cannot give their accelerators."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0067_device_requirements"),
    ]

    operations = [
        migrations.AddField(
            model_name="computesession",
            name="may_change_devices",
            field=models.BooleanField(
                db_default=True,
                default=True,
                editable=False,
                help_text="false once it was queued again because a machine could not give it its accelerators.",
            ),
        ),
    ]
