"""Settings of the portal for tests, without features that only cost time."""

import tests.servers  # noqa: F401  fills the environment, where pytest did not
from portal.settings import *  # noqa: F403
from portal.settings import MIDDLEWARE, STORAGES

# bin/up builds assets; tests run without them, so file names have no hash.
STORAGES = {**STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"

# Would read the whole static directory for each test client, while bin/up may rebuild it.
MIDDLEWARE = [name for name in MIDDLEWARE if not name.startswith("servestatic.")]
