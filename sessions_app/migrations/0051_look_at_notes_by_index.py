"""PostgreSQL keeps the plan by which notes of changed terms are looked at. Made while there were few it would read all of them, and go on
reading all when there are many. Whoever replaces the function says it again."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0050_count_in_one_query")]

    operations = [
        migrations.RunSQL(
            "ALTER FUNCTION berth_demand_terms() SET enable_seqscan = off",
            "ALTER FUNCTION berth_demand_terms() RESET enable_seqscan",
        )
    ]
