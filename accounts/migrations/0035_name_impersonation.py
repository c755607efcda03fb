"""Rename a model for what it is; its table keeps the name."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_squashed_0031_purged_people_hold_nothing")]

    operations = [
        migrations.AlterModelTable("viewing", "accounts_viewing"),
        migrations.RenameModel("Viewing", "Impersonation"),
    ]
