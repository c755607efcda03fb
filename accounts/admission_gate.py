"""Advisory lock that orders admissions and changes of their inputs, so that changes are not
starved.

PostgreSQL grants further shared row locks while a transaction waits to change the row, so a policy
could never be edited under a steady stream of submits. Advisory locks are granted in order:
admissions take this one shared; a change of a policy, project, domain, image, registry or resource
group takes it exclusively, before any row lock. It provides ordering only; consistency rests on the
row locks.
"""

from common.db.advisory_locks import hold_until_commit, share_until_commit

_GATE = "admission-inputs"


def enter_admission() -> None:
    """Take the lock shared until the transaction ends. Waits behind queued changes, not
    admissions.
    """
    share_until_commit(_GATE)


def precede_admissions() -> None:
    """Take the lock exclusively, before any row lock. Waits until running admissions have ended."""
    hold_until_commit(_GATE)
