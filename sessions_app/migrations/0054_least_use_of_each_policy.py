from django.db import migrations, models

# What was one for all policies, of which each threshold counted by itself, is now one that says so; back, of those that count together
# nothing is known until they are judged the next time.
FORWARD = """
UPDATE sessions_app_sessionidle SET least_use = CASE WHEN least_use = '{}' THEN '[]'::jsonb
    ELSE jsonb_build_array(jsonb_build_object('rule', 'any', 'least', least_use)) END;
"""
BACKWARD = """
UPDATE sessions_app_sessionidle SET least_use = coalesce((
    SELECT jsonb_object_agg(name, percent) FROM (
        SELECT wanted.key AS name, max(wanted.value::int) AS percent
        FROM jsonb_array_elements(least_use) AS policy, jsonb_each_text(policy -> 'least') AS wanted
        WHERE policy ->> 'rule' = 'any' GROUP BY wanted.key
    ) AS found), '{}'::jsonb);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0053_least_use_of_policies"),
    ]

    operations = [
        migrations.RunSQL(FORWARD, BACKWARD),
        migrations.AlterField(
            model_name="sessionidle",
            name="least_use",
            field=models.JSONField(
                db_default=[], default=list, help_text="What each of its policies wants, as last judged."
            ),
        ),
    ]
