import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import common.clock


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_people"),
        ("sessions_app", "0002_ledger"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AppDoor",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("port", models.PositiveIntegerField(unique=True)),
                ("app", models.CharField(max_length=20)),
                ("opened_at", models.DateTimeField(default=common.clock.now)),
            ],
        ),
        migrations.RenameField(
            model_name="applogin",
            old_name="cookie_hash",
            new_name="secret_hash",
        ),
        migrations.AddField(
            model_name="applogin",
            name="door_port",
            field=models.PositiveIntegerField(default=0, help_text="0: the app's own host."),
        ),
        migrations.AddField(
            model_name="applogin",
            name="expires_at",
            field=models.DateTimeField(help_text="Of a program's token.", null=True),
        ),
        migrations.AddField(
            model_name="applogin",
            name="keypair",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="accounts.keypair",
            ),
        ),
        migrations.AddField(
            model_name="appticket",
            name="door_port",
            field=models.PositiveIntegerField(default=0, help_text="0: the app's own host."),
        ),
        migrations.AlterField(
            model_name="applogin",
            name="login_key",
            field=models.CharField(blank=True, db_index=True, max_length=40),
        ),
        migrations.AddConstraint(
            model_name="applogin",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(models.Q(("login_key", ""), _negated=True), ("keypair", None)),
                    models.Q(("login_key", ""), ("keypair__isnull", False)),
                    _connector="OR",
                ),
                name="app_login_came_from_one_thing",
            ),
        ),
        migrations.AddField(
            model_name="appdoor",
            name="session",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="app_doors",
                to="sessions_app.computesession",
            ),
        ),
        migrations.AddConstraint(
            model_name="appdoor",
            constraint=models.UniqueConstraint(fields=("session", "app"), name="one_door_for_an_app"),
        ),
        migrations.AddConstraint(
            model_name="appdoor",
            constraint=models.CheckConstraint(
                condition=models.Q(("port__gte", 1), ("port__lte", 65535)), name="door_port_is_a_port"
            ),
        ),
    ]
