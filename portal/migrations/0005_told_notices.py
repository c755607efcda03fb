import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# Records of notified events: for budgets until the end of the period, for others longer than a repetition is possible.
REMEMBER = """
    INSERT INTO portal_toldnotice (person_id, happening, again_until)
    SELECT notice.person_id, notice.happening, COALESCE(budget.ends_on, notice.period_began_on + 100)
    FROM portal_budgetnotice notice JOIN accounts_budget budget ON budget.id = notice.budget_id
    ON CONFLICT DO NOTHING;
    INSERT INTO portal_toldnotice (person_id, happening, again_until)
    SELECT person_id, happening, created_at + interval '30 days' FROM portal_notification
    ON CONFLICT DO NOTHING;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("portal", "0004_notification_mails"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ToldNotice",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("happening", models.CharField(max_length=120)),
                (
                    "again_until",
                    models.DateTimeField(db_index=True, help_text="Nobody comes to tell it again later."),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["happening"], name="told_happening")],
                "constraints": [models.UniqueConstraint(fields=("person", "happening"), name="told_once")],
            },
        ),
        migrations.RunSQL(REMEMBER, migrations.RunSQL.noop),
        migrations.RemoveConstraint("notification", "one_notification_of_a_happening"),
        migrations.RemoveField("notification", "happening"),
        migrations.DeleteModel("BudgetNotice"),
    ]
