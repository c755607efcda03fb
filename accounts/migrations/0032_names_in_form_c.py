from typing import Any

from django.db import migrations

import common.fields

COLUMNS = (
    ("domain", "title"),
    ("keypair", "name"),
    ("membershiprule", "value"),
    ("project", "title"),
    ("resourcepolicy", "name"),
    ("sshkey", "name"),
    ("user", "name"),
)


def normalise(apps: Any, editor: Any) -> None:
    for model, column in COLUMNS:
        common.fields.normalise_names(apps.get_model("accounts", model), column)


class Migration(migrations.Migration):
    """Names in Unicode normalisation form C: names that look alike are one. Of two that did, the later gets a number."""

    dependencies = [
        ("accounts", "0031_purged_people_hold_nothing"),
    ]

    operations = [
        migrations.AlterField(
            model_name="domain",
            name="title",
            field=common.fields.NameField(blank=True, max_length=120),
        ),
        migrations.AlterField(
            model_name="keypair",
            name="name",
            field=common.fields.NameField(max_length=60),
        ),
        migrations.AlterField(
            model_name="membershiprule",
            name="value",
            field=common.fields.NameField(blank=True, max_length=300),
        ),
        migrations.AlterField(
            model_name="project",
            name="title",
            field=common.fields.NameField(blank=True, max_length=120),
        ),
        migrations.AlterField(
            model_name="resourcepolicy",
            name="name",
            field=common.fields.NameField(max_length=64),
        ),
        migrations.AlterField(
            model_name="sshkey",
            name="name",
            field=common.fields.NameField(max_length=60),
        ),
        migrations.AlterField(
            model_name="user",
            name="name",
            field=common.fields.NameField(blank=True, max_length=120),
        ),
        migrations.RunPython(normalise, migrations.RunPython.noop, elidable=True),
    ]
