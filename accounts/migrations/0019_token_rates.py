from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0018_ssh_keys_of_tokens")]

    operations = [
        migrations.AddField(
            model_name="resourcepolicy",
            name="max_requests",
            field=models.PositiveIntegerField(
                blank=True, help_text="Of one API token, in a minute.", null=True
            ),
        )
    ]
