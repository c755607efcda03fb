from typing import Any

from django.db import migrations

import common.db.fields

COLUMNS = (("dotfile", "path"), ("resourcepreset", "name"), ("sessiontemplate", "name"))


def normalise(apps: Any, editor: Any) -> None:
    for model, column in COLUMNS:
        common.db.fields.normalise_names(apps.get_model("sessions_app", model), column)


class Migration(migrations.Migration):
    """Names in Unicode normalisation form C: names that look alike are one. Where a row has the name already, the other gets a
    number."""

    dependencies = [
        ("sessions_app", "0060_kept_log_positions"),
    ]

    operations = [
        migrations.AlterField(
            model_name="dotfile",
            name="path",
            field=common.db.fields.NameField(help_text="From the home directory on.", max_length=255),
        ),
        migrations.AlterField(
            model_name="resourcepreset",
            name="name",
            field=common.db.fields.NameField(max_length=64),
        ),
        migrations.AlterField(
            model_name="sessiontemplate",
            name="name",
            field=common.db.fields.NameField(max_length=64),
        ),
        migrations.RunPython(normalise, migrations.RunPython.noop, elidable=True),
    ]
