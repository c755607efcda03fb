"""Remove resource policies from purged users; they kept them, so that the policies could never be
deleted.
"""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def let_go(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    purged = apps.get_model("accounts", "User").objects.filter(purged_at__isnull=False)
    purged.update(policy=None, language="", allowed_networks=[])
    editor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # the table is altered next


class Migration(migrations.Migration):
    dependencies = [("accounts", "0030_rule_of_least_use")]

    operations = [
        migrations.RunPython(let_go, migrations.RunPython.noop),
        migrations.RemoveConstraint(model_name="user", name="user_purged_is_closed"),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("purged_at", None), models.Q(("is_active", False), ("policy", None)), _connector="OR"
                ),
                name="user_purged_holds_nothing",
            ),
        ),
    ]
