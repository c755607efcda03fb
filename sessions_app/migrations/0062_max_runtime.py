from django.db import migrations, models
from django.db.models.functions import Least


class Migration(migrations.Migration):
    """How long a session may run, for all that ask: the shorter of its own limit and that of its policies. Writes the table anew."""

    dependencies = [
        ("sessions_app", "0061_names_in_form_c"),
    ]

    operations = [
        migrations.AddField(
            model_name="computesession",
            name="max_runtime_s",
            field=models.GeneratedField(
                db_persist=True,
                expression=Least("timeout_s", "lifetime_s"),
                output_field=models.PositiveIntegerField(null=True),
            ),
        ),
    ]
