from django.db import migrations

import common.db.fields


class Migration(migrations.Migration):
    """Normalise names to Unicode normalisation form C, so that equal-looking names are equal."""

    dependencies = [
        ("accounts", "0001_squashed_0031_purged_people_hold_nothing"),
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
    ]
