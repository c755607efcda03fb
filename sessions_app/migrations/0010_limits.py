import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0005_policies"),
        ("sessions_app", "0009_kept_sentences"),
    ]

    operations = [
        migrations.AddField(
            model_name="computesession",
            name="kernel_count",
            field=models.PositiveSmallIntegerField(default=1),
        ),
        migrations.AddField(
            model_name="computesession",
            name="keypair",
            field=models.ForeignKey(
                db_constraint=False,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="accounts.keypair",
            ),
        ),
        migrations.AddField(
            model_name="computesession",
            name="lifetime_s",
            field=models.PositiveIntegerField(
                editable=False, help_text="What its policies allowed when it was asked for.", null=True
            ),
        ),
    ]
