import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0022_rule_failures")]

    operations = [
        migrations.AddField(
            model_name="resourcepolicy",
            name="allowed_images",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=255),
                blank=True,
                help_text="Names of images that may be used; * stands for any characters.",
                null=True,
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="resourcepolicy",
            name="allowed_registries",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=255),
                blank=True,
                help_text="Places that images may come from.",
                null=True,
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="resourcepolicy",
            name="allowed_storage_hosts",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=255),
                blank=True,
                help_text="Where new folders may be.",
                null=True,
                size=None,
            ),
        ),
    ]
