"""Update the module path of the authentication backend in open sessions, so that they stay
valid.
"""

from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY
from django.db import migrations

OLD, NEW = "accounts.backends.", "accounts.sign_in.auth_backends."


def rename(apps: Any, old: str, new: str) -> None:
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    for login in apps.get_model("accounts", "BrowserLogin").objects.iterator():
        data = store.decode(login.session_data)  # empty if it was signed with another key
        path = data.get(BACKEND_SESSION_KEY, "")
        if path.startswith(old):
            login.session_data = store.encode({**data, BACKEND_SESSION_KEY: path.replace(old, new)})
            login.save(update_fields=["session_data"])


def forward(apps: Any, schema_editor: Any) -> None:
    rename(apps, OLD, NEW)


def backward(apps: Any, schema_editor: Any) -> None:
    rename(apps, NEW, OLD)


class Migration(migrations.Migration):
    dependencies = (("accounts", "0033_standard_labels"),)
    operations = (migrations.RunPython(forward, backward),)
