from django.db import migrations, models

# What was one for all policies, of which each threshold counted by itself, is now one that says so. Back, nothing is known until they are
# judged the next time.
FORWARD = """
UPDATE sessions_app_sessionidle SET thresholds = jsonb_build_array(jsonb_build_object(
    'rule', 'any', 'least', least_use, 'is_group', false))
WHERE jsonb_typeof(least_use) = 'object' AND least_use <> '{}';
"""


class Migration(migrations.Migration):
    """Another column instead of another form of one: whoever still runs the release before fails at once, and writes nothing of its own."""

    dependencies = [
        ("sessions_app", "0053_least_use_of_policies"),
    ]

    operations = [
        migrations.AddField(
            model_name="sessionidle",
            name="thresholds",
            field=models.JSONField(
                db_default=[],
                default=list,
                help_text="What its group and each of its policies wants, as last judged.",
            ),
        ),
        migrations.RunSQL(FORWARD, migrations.RunSQL.noop),
        migrations.RemoveField(model_name="sessionidle", name="least_use"),
    ]
