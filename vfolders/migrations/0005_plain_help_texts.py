from django.db import migrations, models

import common.clock


class Migration(migrations.Migration):
    dependencies = [
        ("vfolders", "0001_squashed_0004_names_in_form_c"),
    ]

    operations = [
        migrations.AlterField(
            model_name="storagehost",
            name="is_active",
            field=models.BooleanField(default=True, help_text="New folders may be created on this host."),
        ),
        migrations.AlterField(
            model_name="vfolder",
            name="is_size_whole",
            field=models.BooleanField(
                default=True, editable=False, help_text="false if the folder is larger than was counted."
            ),
        ),
        migrations.AlterField(
            model_name="vfolder",
            name="measure_at",
            field=models.DateTimeField(
                default=common.clock.now, editable=False, help_text="Time of the next measurement."
            ),
        ),
        migrations.AlterField(
            model_name="vfolder",
            name="size_bytes",
            field=models.BigIntegerField(
                default=0,
                editable=False,
                help_text="Size as last measured, plus what the portal has written since.",
            ),
        ),
    ]
