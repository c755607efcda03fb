"""The portal's settings, less what only costs time in tests."""

import tests.servers  # noqa: F401  fills the environment, where pytest did not
from portal.settings import *  # noqa: F403
from portal.settings import MIDDLEWARE, STORAGES

# Assets are built by bin/up; pages are tested without them, so names carry no hash of the contents.
STORAGES = {**STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"

# Reads the whole static directory for each test client, and bin/up may be rebuilding it.
MIDDLEWARE = [name for name in MIDDLEWARE if not name.startswith("servestatic.")]
