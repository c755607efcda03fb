"""Django for a process of a chaos run: all of them are one installation. Imported before any model."""

import os

import tests.servers

os.environ["BERTH_INSTALLATION"] = os.environ["CHAOS_INSTALLATION"]

import tests.bench.own_django  # noqa: F401
