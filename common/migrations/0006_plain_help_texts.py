from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("common", "0001_squashed_0005_clock_reading")]

    operations = [
        migrations.AlterField(
            model_name="auditentry",
            name="last_at",
            field=models.DateTimeField(
                help_text="Time of the last occurrence, if the entry counts several.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="auditentry",
            name="reason",
            field=models.CharField(
                blank=True, default="", help_text="Error code, if the action was refused.", max_length=60
            ),
        ),
    ]
