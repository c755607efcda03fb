"""Accelerators that an image can use, and the CUDA that it needs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("images", "0003_plain_help_texts"),
    ]

    operations = [
        migrations.AddField(
            model_name="containerimage",
            name="accelerators",
            field=models.JSONField(blank=True, db_default=[], default=list),
        ),
        migrations.AddField(
            model_name="containerimage",
            name="min_cuda",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
    ]
