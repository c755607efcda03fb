"""Run Django commands that read no rows, without an installation.

python -m tests.manage makemigrations --check
"""

import os
import sys

from django.core.management import execute_from_command_line

import tests.servers  # noqa: F401  fills the environment

if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    # The database `postgres` is empty and always exists; that of a test run may not.
    os.environ["DATABASE_URL"] = os.environ["DATABASE_URL"].rpartition("/")[0] + "/postgres"
    execute_from_command_line(sys.argv)
