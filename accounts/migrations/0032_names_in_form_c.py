from typing import Any

from django.db import migrations

import common.db.fields
from common.values.text import normalised

COLUMNS = (
    ("domain", "title"),
    ("keypair", "name"),
    ("project", "title"),
    ("resourcepolicy", "name"),
    ("sshkey", "name"),
    ("user", "name"),
)


def normalise(apps: Any, editor: Any) -> None:
    for model, column in COLUMNS:
        common.db.fields.normalise_names(apps.get_model("accounts", model), column)
    rules = apps.get_model("accounts", "MembershipRule")
    common.db.fields.normalise_names(rules, "value", are_duplicates=True)


def normalise_groups(apps: Any, editor: Any) -> None:
    """Normalise stored groups of identity providers, which rules are compared with."""
    for account in apps.get_model("socialaccount", "SocialAccount").objects.filter(
        extra_data__has_key="groups"
    ):
        groups = sorted({normalised(group) for group in account.extra_data["groups"]})
        if groups != account.extra_data["groups"]:
            account.extra_data["groups"] = groups
            account.save(update_fields=["extra_data"])


class Migration(migrations.Migration):
    """Normalise names to Unicode normalisation form C, so that equal-looking names are equal. A
    name that is taken already gets a number.
    """

    dependencies = [
        ("accounts", "0031_purged_people_hold_nothing"),
        ("socialaccount", "0006_alter_socialaccount_extra_data"),
    ]

    operations = [
        migrations.AlterField(
            model_name="domain", name="title", field=common.db.fields.NameField(blank=True, max_length=120)
        ),
        migrations.AlterField(
            model_name="keypair", name="name", field=common.db.fields.NameField(max_length=60)
        ),
        migrations.AlterField(
            model_name="membershiprule",
            name="value",
            field=common.db.fields.NameField(blank=True, max_length=300),
        ),
        migrations.AlterField(
            model_name="project", name="title", field=common.db.fields.NameField(blank=True, max_length=120)
        ),
        migrations.AlterField(
            model_name="resourcepolicy", name="name", field=common.db.fields.NameField(max_length=64)
        ),
        migrations.AlterField(
            model_name="sshkey", name="name", field=common.db.fields.NameField(max_length=60)
        ),
        migrations.AlterField(
            model_name="user", name="name", field=common.db.fields.NameField(blank=True, max_length=120)
        ),
        migrations.RunPython(normalise, migrations.RunPython.noop, elidable=True),
        migrations.RunPython(normalise_groups, migrations.RunPython.noop, elidable=True),
    ]
