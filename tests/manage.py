"""Django's command line without an installation, for commands that read no rows.

python -m tests.manage makemigrations --check
"""

import os
import sys

from django.core.management import execute_from_command_line

import tests.servers  # noqa: F401  fills the environment

if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    # An empty database that always exists; commands would wait for the one of a test run.
    os.environ["DATABASE_URL"] = os.environ["DATABASE_URL"].rpartition("/")[0] + "/postgres"
    execute_from_command_line(sys.argv)
