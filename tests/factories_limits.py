"""Create resource policies for tests."""

from itertools import count
from typing import Any

from accounts.core.limits import Level
from accounts.models import LimitUse, ResourcePolicy
from accounts.policies.service import LimitedObject, assign_policy
from common.actors import SYSTEM

_numbers = count(1)


def limit(target: LimitedObject, **limits: Any) -> ResourcePolicy:
    """Give `target` a policy of its own with these limits, as its only policy.

    `limits` are columns of ResourcePolicy.
    """
    policy = ResourcePolicy.objects.create(name=f"policy-{next(_numbers)}", **limits)
    assign_policy(actor=SYSTEM, target=target, policy=policy)
    return policy


def use_of(target: LimitedObject) -> dict[str, int]:
    """Return the allocated amounts of `target` from the ledger; omits zeros."""
    level = Level(target._meta.model_name)
    rows = LimitUse.objects.filter(level=level.value, scope_id=target.pk).exclude(used=0)
    return dict(rows.values_list("resource", "used"))
