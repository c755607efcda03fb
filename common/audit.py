"""Writes the access log, inside the transaction of the change it tells of."""

from collections.abc import Mapping
from typing import Any

from django.db import models

from common import clock
from common.actors import Actor
from common.models import AuditEntry


def record(
    *,
    actor: Actor,
    action: str,
    target: models.Model | None = None,
    outcome: str = AuditEntry.Outcome.DONE,
    changes: Mapping[str, Any] | None = None,
) -> None:
    """Add one line: `actor` did `action` (app.verb_noun) to `target`. `changes` holds no secret."""
    AuditEntry.objects.create(
        recorded_at=clock.now(),
        actor_kind=actor.kind.value,
        actor_id=actor.user_id,
        actor_label=actor.label,
        domain_id=actor.domain_id,
        ip=actor.ip,
        request_id=actor.request_id,
        action=action,
        target_type=target._meta.label_lower if target is not None else "",
        target_id=str(target.pk) if target is not None else "",
        target_label=str(target)[:254] if target is not None else "",
        outcome=outcome,
        changes=dict(changes or {}),
    )
