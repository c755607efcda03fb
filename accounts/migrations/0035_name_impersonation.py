"""Rename a model for what it is; its table keeps the name."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("accounts", "0033_standard_labels")]

    operations = [
        migrations.AlterModelTable("viewing", "accounts_viewing"),
        migrations.RenameModel("Viewing", "Impersonation"),
    ]
