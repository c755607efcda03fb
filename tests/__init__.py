"""Whatever runs from here holds the checkout for as long as it lives, as a running bin/up does: `bin/down --purge` then leaves .venv,
node_modules and assets, which all of them use."""

import contextlib

from portal.ops.layout import CHECKOUT
from portal.ops.locks import directory_lock

HELD = contextlib.ExitStack()
HELD.enter_context(directory_lock(CHECKOUT, is_shared=True))
