from typing import Any

from django.db import migrations

import common.db.fields

COLUMNS = (("reservation", "name"),)


def normalise(apps: Any, editor: Any) -> None:
    for model, column in COLUMNS:
        common.db.fields.normalise_names(apps.get_model("agents", model), column)


class Migration(migrations.Migration):
    """Normalise names to Unicode normalisation form C, so that names that look alike are equal.
    A name that exists already gets a number.
    """

    dependencies = [
        ("agents", "0020_gathered_room"),
    ]

    operations = [
        migrations.AlterField(
            model_name="reservation",
            name="name",
            field=common.db.fields.NameField(max_length=64),
        ),
        migrations.RunPython(normalise, migrations.RunPython.noop, elidable=True),
    ]
