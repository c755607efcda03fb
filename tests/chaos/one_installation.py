"""Django for a process of a chaos run: all of them are one installation. Imported before any model."""

import os

import tests.servers

os.environ["BERTH_INSTALLATION"] = os.environ["CHAOS_INSTALLATION"]
os.environ.setdefault("BERTH_DB_SILENCE_S", "300")  # a busy machine is late, and no fault

import tests.bench.own_django  # noqa: F401
