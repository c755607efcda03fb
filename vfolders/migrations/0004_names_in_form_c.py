from typing import Any

from django.db import migrations

import common.db.fields

COLUMNS = (("storagehost", "name"), ("vfolder", "name"))


def normalise(apps: Any, editor: Any) -> None:
    for model, column in COLUMNS:
        common.db.fields.normalise_names(apps.get_model("vfolders", model), column)


class Migration(migrations.Migration):
    """Normalise names to Unicode normalisation form C, so that names that look alike are equal.
    A name that exists already gets a number.
    """

    dependencies = [
        ("vfolders", "0003_sizes"),
    ]

    operations = [
        migrations.AlterField(
            model_name="storagehost",
            name="name",
            field=common.db.fields.NameField(max_length=64, unique=True),
        ),
        migrations.AlterField(
            model_name="vfolder",
            name="name",
            field=common.db.fields.NameField(max_length=64),
        ),
        migrations.RunPython(normalise, migrations.RunPython.noop, elidable=True),
    ]
