from urllib.parse import urlsplit

from django.db import migrations, models


def name_hosts(apps, schema_editor):
    callbacks = apps.get_model("sessions_app", "SessionCallback")
    batch = []
    for callback in callbacks.objects.iterator(chunk_size=1000):
        callback.host = urlsplit(callback.url).hostname or ""
        batch.append(callback)
        if len(batch) == 1000:
            callbacks.objects.bulk_update(batch, ["host"])
            batch = []
    callbacks.objects.bulk_update(batch, ["host"])


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0033_presets"),
    ]

    operations = [
        migrations.AddField(
            model_name="sessioncallback",
            name="host",
            field=models.CharField(
                default="", help_text="That of the address: few at once go to one.", max_length=2000
            ),
            preserve_default=False,
        ),
        migrations.RunPython(name_hosts, migrations.RunPython.noop),
        migrations.AlterModelOptions(
            name="callbackdelivery",
            options={"ordering": ("callback_id", "transition_id")},
        ),
    ]
