"""The gate of admissions, which keeps whoever changes a row that many sessions are admitted by from waiting for ever.

PostgreSQL grants a shared row lock beside others that are held, whoever waits to change the row. Where submits overlap
without pause, a policy could so never be edited. An advisory lock has a queue: admissions share it, who changes a
policy, project, domain, image, registry or resource group holds it alone, before any row. It orders; the rows protect.
"""

from common.db.advisory_locks import hold_until_commit, share_until_commit

_GATE = "admission-inputs"


def enter_admission() -> None:
    """Begin an admission in the present transaction: behind changes that wait, beside other admissions."""
    share_until_commit(_GATE)


def precede_admissions() -> None:
    """Begin a change in the present transaction, before its first row lock: it waits for the admissions that have begun."""
    hold_until_commit(_GATE)
