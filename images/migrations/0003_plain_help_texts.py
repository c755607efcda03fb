from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("images", "0002_readonly_root"),
    ]

    operations = [
        migrations.AlterField(
            model_name="containerimage",
            name="bears_readonly_root",
            field=models.BooleanField(
                default=False,
                help_text="The programs of the image write only to the home directory, /tmp and /var/tmp.",
            ),
        ),
    ]
