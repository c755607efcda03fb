"""Refuse allocations of devices that are withheld, not only of those that are gone."""

from django.db import migrations


def _redefine(schema_editor, old: str, new: str) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_functiondef('berth_apply_allocations'::regproc)")
        (definition,) = cursor.fetchone()
        cursor.execute(definition.replace(old, new))


def use_usable(apps, schema_editor) -> None:
    _redefine(schema_editor, "device.is_present", "device.is_usable")


def use_present(apps, schema_editor) -> None:
    _redefine(schema_editor, "device.is_usable", "device.is_present")


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0026_accelerators"),
        ("sessions_app", "0065_name_app_access_and_pooled_networks"),
    ]

    operations = [migrations.RunPython(use_usable, use_present)]
