"""Writes the audit log: actions in the transaction of their change, refusals after it."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, models, transaction
from django.db.models import F
from django.utils.translation import gettext as _

from common import clock
from common.actors import SYSTEM, Actor, Via
from common.errors import PermissionDenied
from common.models import AuditEntry

Outcome = AuditEntry.Outcome
# Placeholder for values that are not stored. Pages show “changed”.
CHANGED = "***"
PURGE_BATCH = 5000
MOST_PARTS, MOST_CHARACTERS = 50, 500
FOLDED = timedelta(minutes=1)
_SECRET = re.compile(
    r"^(code|key)$|(^|_)(passwords?\d?|passphrase|secrets?|tokens?|credentials?|(private|access|api|client|secret)_?keys?|hash"
    r"|authorization|cookies?|environ|environment|env|variables)($|_)"
)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


def record(
    *,
    actor: Actor,
    action: str,
    target: models.Model | None = None,
    outcome: str = Outcome.DONE,
    changes: Mapping[str, Any] | None = None,
    reason: str = "",
) -> None:
    """Add one line: `actor` did `action` (app.verb_noun) to `target`.

    `changes` are {field: [before, after]} (see `changed`), or {field: value} of a request. For
    fields with secret-like names only the fact of the change is stored. Raises PermissionDenied,
    which undoes the change, during impersonation.
    """
    if actor.impersonator_id is not None:
        raise impersonation_refusal()
    record_impersonation(
        actor=actor, action=action, target=target, outcome=outcome, changes=changes, reason=reason
    )


def record_impersonation(
    *,
    actor: Actor,
    action: str,
    target: models.Model | None = None,
    outcome: str = Outcome.DONE,
    changes: Mapping[str, Any] | None = None,
    reason: str = "",
) -> None:
    """Add one line like `record`, but allow impersonation; only for its begin and end."""
    entry = _entry(actor, action, outcome, changes or {}, reason)
    if target is not None:
        _set_target(entry, target)
    entry.save(force_insert=True)


def record_many(
    *, actor: Actor, action: str, targets: Iterable[tuple[models.Model, Mapping[str, Any]]]
) -> None:
    """Add one line per (target, changes), like `record`, in one query."""
    if actor.impersonator_id is not None:
        raise impersonation_refusal()
    entries = []
    for target, changes in targets:
        entries.append(entry := _entry(actor, action, Outcome.DONE, changes, ""))
        _set_target(entry, target)
    AuditEntry.objects.bulk_create(entries)


def impersonation_refusal() -> PermissionDenied:
    """Return the refusal of any change during impersonation."""
    return PermissionDenied(
        _("Impersonation is read-only. Nothing was done."),
        hint=_("Stop impersonating first, then do it as yourself."),
        code="only_looking",
    )


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return {field: [before, after]} of the fields that differ."""
    return {name: [before.get(name), value] for name, value in after.items() if before.get(name) != value}


def record_refusal(  # noqa: PLR0913 -- all by name
    *,
    actor: Actor,
    action: str,
    reason: str,
    target: tuple[str, str] = ("", ""),
    target_label: str = "",
    domain_id: int | None = None,
    outcome: str = Outcome.REFUSED,
    changes: Mapping[str, Any] | None = None,
    kind: Sequence[object] = (),
) -> bool:
    """Add one line for a refused or failed request, or count up the line of an equal one within a
    minute. Returns True if the line is new.

    `target` is (type, id). Lines are equal by actor, address, action, reason and `kind`. At most 2
    queries, 1 for a repetition; of two first ones at the same instant, one may stay uncounted.
    """
    entry = _entry(actor, action, outcome, changes or {}, reason)
    entry.target_type, entry.target_id = target[0], _cut(target[1], 60)
    entry.target_label = _cut(target_label, 254)
    entry.domain_id = domain_id or entry.domain_id
    minute = int(entry.recorded_at.timestamp() // FOLDED.total_seconds())
    same = (minute, actor.user_id, actor.impersonator_id, actor.ip, action, reason, *kind)
    entry.fold_key = hashlib.sha256(repr(same).encode()).hexdigest()
    with transaction.atomic() if connection.in_atomic_block else nullcontext():
        known = AuditEntry.objects.filter(fold_key=entry.fold_key)
        is_new = not known.update(count=F("count") + 1, last_at=entry.recorded_at)
        if is_new:
            AuditEntry.objects.bulk_create([entry], ignore_conflicts=True)
    return is_new


def purge_audit(*, before: datetime) -> int:
    """Delete lines recorded before that instant, in batches of PURGE_BATCH; each batch is itself
    recorded. Returns the number of lines. Safe to kill at any point.
    """
    gone = 0
    while batch := _purge_batch(before):
        gone += batch
    return gone


@transaction.atomic
def _purge_batch(before: datetime) -> int:
    old = AuditEntry.objects.filter(recorded_at__lt=before).order_by("recorded_at", "id")
    keys = list(old.values_list("pk", flat=True)[:PURGE_BATCH])
    if not keys:
        return 0
    gone = AuditEntry.objects.filter(pk__in=keys).delete()[0]
    record(actor=SYSTEM, action="common.purge_audit", changes={"lines": gone, "before": before})
    return gone


def _entry(actor: Actor, action: str, outcome: str, changes: Mapping[str, Any], reason: str) -> AuditEntry:
    is_behind = actor.impersonator_id is not None
    return AuditEntry(
        recorded_at=clock.now(),
        actor_kind=actor.kind.value,
        actor_id=actor.impersonator_id if is_behind else actor.user_id,
        actor_label=_cut(actor.impersonator_label if is_behind else actor.label, 254),
        acted_as_id=actor.user_id if is_behind else None,
        acted_as_label=_cut(actor.label, 254) if is_behind else "",
        domain_id=None if actor.is_superadmin else actor.domain_id,
        ip=_cut(actor.ip, 45),
        via=actor.via or (Via.PORTAL.value if actor.is_system else ""),
        user_agent=_cut(actor.user_agent, 200),
        request_id=actor.request_id,
        action=action,
        outcome=outcome,
        reason=_cut(reason, 60),
        changes={str(name): _storable(str(name), value) for name, value in changes.items()},
    )


def _set_target(entry: AuditEntry, target: models.Model) -> None:
    entry.target_type = target._meta.label_lower
    entry.target_id = str(target.pk)
    entry.target_label = _cut(str(target), 254)
    entry.domain_id = getattr(target, "domain_id", None) or entry.domain_id


def _storable(name: str, value: Any) -> Any:
    """Return the storable part of a value: without secrets, bounded in length, and valid JSON."""
    if _SECRET.search(re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", name).lower()):
        return CHANGED
    if isinstance(value, Mapping):
        return {str(key): _storable(str(key), part) for key, part in list(value.items())[:MOST_PARTS]}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_storable("", part) for part in list(value)[:MOST_PARTS]]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return _cut(_USERINFO.sub("", text), MOST_CHARACTERS)


def _cut(text: str, length: int) -> str:
    """Return the text without NUL, which PostgreSQL cannot store, and cut to `length`."""
    text = text.replace("\0", "")
    return text if len(text) <= length else f"{text[: length - 1]}…"
