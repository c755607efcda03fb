"""Delete reservations of deleted groups that have not ended: they cannot be cancelled, and would
reserve their agents until their end.
"""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.utils import timezone


def cancel(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    reservations = apps.get_model("agents", "Reservation").objects
    reservations.filter(group__deleted_at__isnull=False, ends_at__gt=timezone.now()).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0017_words_of_least_use"),
    ]

    operations = [
        migrations.RunPython(cancel, migrations.RunPython.noop, elidable=True),
    ]
