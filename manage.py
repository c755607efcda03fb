#!/usr/bin/env python3
"""Django's command line for Berth; `bin/manage` runs it inside the project's virtual environment."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    execute_from_command_line(sys.argv)
