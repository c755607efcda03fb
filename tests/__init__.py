"""Prepare the checkout for tests: keep its environment in use and cache compiled modules.

`bin/down --purge` leaves .venv, node_modules and assets while a test process that uses them lives.
Compiled modules are cached in var/test/pyc even if the system disables bytecode: otherwise each
process compiles the whole project, and pytest rewrites every assertion again.
"""

import contextlib
import os
import sys

from portal.ops.locks import directory_lock
from portal.ops.paths import CHECKOUT

HELD = contextlib.ExitStack()
HELD.enter_context(directory_lock(CHECKOUT, is_shared=True))

sys.dont_write_bytecode = False
sys.pycache_prefix = str(CHECKOUT / "var" / "test" / "pyc")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
