"""Django settings that join a process to the chaos run's installation. Imported before any model.

At its end go all keys of Redis with its name in them: no other run's has that in its own.
"""

import os

import tests.servers

os.environ["BERTH_INSTALLATION"] = os.environ.setdefault(
    "CHAOS_INSTALLATION", os.environ["BERTH_INSTALLATION"]
)
os.environ.setdefault("BERTH_DB_SILENCE_S", "300")  # a busy machine is late, and no fault

import tests.bench.own_django  # noqa: F401
