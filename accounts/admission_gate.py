"""Advisory lock that orders admissions and changes of their inputs, so that changes are not
starved.

PostgreSQL grants further shared row locks while a transaction waits to change the row, so a policy
could never be edited under a steady stream of submits. Advisory locks are granted in order:
admissions take this one shared; a change of a row that they lock takes it exclusively, before any row
lock and after a check of the right. It provides ordering only; consistency rests on the row locks.
"""

from collections.abc import Callable

from django.utils.translation import gettext as _

from common.db.advisory_locks import LockTimeout, lock_exclusive, lock_shared
from common.errors import Unavailable

_GATE = "admission-inputs"
# A waiter holds a database connection, so it gives up rather than use up the pool.
ENTER_WAIT_S, PRECEDE_WAIT_S = 5, 15


def enter_admission() -> None:
    """Take the lock shared until the transaction ends. Waits behind queued changes, not
    admissions. Raises Unavailable.
    """
    _take(lambda: lock_shared(_GATE, wait_s=ENTER_WAIT_S))


def precede_admissions() -> None:
    """Take the lock exclusively, before any row lock. Waits until running admissions have ended.
    Raises Unavailable.
    """
    _take(lambda: lock_exclusive(_GATE, wait_s=PRECEDE_WAIT_S))


def _take(wait: Callable[[], None]) -> None:
    try:
        wait()
    except LockTimeout as error:
        raise Unavailable(
            _("Other changes at the same moment took too long."), hint=_("Try again.")
        ) from error
