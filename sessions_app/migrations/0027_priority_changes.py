import django.db.models.deletion
from django.db import migrations, models

import common.clock


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0026_callbacks"),
    ]

    operations = [
        migrations.CreateModel(
            name="PriorityChange",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("was", models.SmallIntegerField()),
                ("priority", models.SmallIntegerField()),
                ("actor_label", models.CharField(max_length=254)),
                ("is_by_owner", models.BooleanField()),
                ("happened_at", models.DateTimeField(default=common.clock.now)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="priority_changes",
                        to="sessions_app.computesession",
                    ),
                ),
            ],
            options={
                "ordering": ("happened_at", "id"),
            },
        ),
    ]
