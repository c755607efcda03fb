"""Hold the checkout and keep compiled modules for whatever runs from here.

`bin/down --purge` leaves .venv, node_modules and assets while a process of the tests lives, which
uses them. Compiled modules are kept in var/test/pyc also where the machine asks Python to write
none: without them each process compiles the whole project, and pytest rewrites every assertion
anew.
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
