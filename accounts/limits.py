"""Reads policy limits with their current use and builds the LimitExceeded error.

The arithmetic is in `accounts.core.limits`; the database enforces the limits (ADR 0024).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from accounts.core.allow_lists import AllowList, ScopeAllowList
from accounts.core.limits import Level, Limit, LimitState, Scope, applies_at, limit_kind
from accounts.core.utilization import UtilizationRule
from accounts.models import (
    DEFAULT_LIMITS,
    Domain,
    KeyPair,
    LimitUse,
    Project,
    ResourcePolicy,
    User,
    policy_allow_lists,
    policy_limits,
)
from common.actors import Actor
from common.db.connection import constraint_of
from common.db.rows import read_rows
from common.errors import LimitExceeded
from common.i18n import paragraph

Written = TypeVar("Written")
WITHIN_LIMITS = "within_limits"
TRIES = 3
HINTS = {
    Limit.SESSIONS: gettext_noop("Stop a session first, or wait until one ends."),
    Limit.PENDING_SESSIONS: gettext_noop("Wait until one of them starts, or cancel one."),
    Limit.PENDING_SLOTS: gettext_noop("Wait until some of them start, or ask for less."),
    Limit.KEYPAIRS: gettext_noop("Delete one first."),
    Limit.FOLDERS: gettext_noop("Delete one first."),
    Limit.FOLDER_BYTES: gettext_noop(
        "Delete files of these folders, or ask an administrator for a higher limit. Folders that are mounted read-only are not asked about."
    ),
}
# Request field that is marked when a limit refuses it.
FIELDS = {
    Limit.SLOTS: "resources",
    Limit.PENDING_SLOTS: "resources",
    Limit.LIFETIME: "timeout_s",
    Limit.PRIORITY: "priority",
}
ALLOW_FIELDS = {
    AllowList.REGISTRIES: "image", AllowList.IMAGES: "image", AllowList.STORAGE_HOSTS: "host",
}  # fmt: skip
# json instead of jsonb: it is only written, and jsonb takes PostgreSQL longer.
_SCOPES = f"""
    SELECT scope.level, scope.id, scope.name, to_json(policy.*) AS policy,
           (SELECT coalesce(json_object_agg(resource, used), json_build_object()) FROM {LimitUse._meta.db_table} AS use
            WHERE use.level = scope.level AND use.scope_id = scope.id) AS used
    FROM (
        SELECT 'domain' AS level, id, name, policy_id FROM {Domain._meta.db_table} WHERE id = ANY(%(domain)s::bigint[])
        UNION ALL SELECT 'project', id, name, policy_id FROM {Project._meta.db_table} WHERE id = ANY(%(project)s::bigint[])
        UNION ALL SELECT 'user', id, email, policy_id FROM {User._meta.db_table} WHERE id = ANY(%(user)s::bigint[])
        UNION ALL SELECT 'keypair', id, name, policy_id FROM {KeyPair._meta.db_table} WHERE id = ANY(%(keypair)s::bigint[])
    ) AS scope
    JOIN {ResourcePolicy._meta.db_table} AS policy ON policy.id = scope.policy_id
"""


class _ScopeRow(NamedTuple):
    """Row of `_SCOPES`."""

    level: str
    id: int
    name: str
    policy: dict[str, Any]  # columns of the policy
    used: dict[str, int]  # by resource


@dataclass(frozen=True, slots=True)
class ScopeIds:
    """Ids of the domain, project, user and keypair whose limits apply; None where there is none."""

    domain: int | None = None
    project: int | None = None
    user: int | None = None
    keypair: int | None = None

    def keys(self) -> list[tuple[Level, int]]:
        ids = zip(Level, (self.domain, self.project, self.user, self.keypair), strict=True)
        return [(level, scope_id) for level, scope_id in ids if scope_id is not None]


def scope_ids(actor: Actor, project: Project | None = None) -> ScopeIds:
    """Return the ids of the scopes whose limits apply to what `actor` does in `project`."""
    domain_id = project.domain_id if project else actor.domain_id
    return ScopeIds(domain_id, project.pk if project else None, actor.user_id, actor.keypair_id)


def read_scopes(keys: Collection[tuple[Level, int]]) -> list[Scope]:
    """Return those scopes that have a policy, with their current use. One query."""
    ids = {level.value: [scope_id for at, scope_id in keys if at is level] for level in Level}
    return [_scope(row) for row in read_rows(_ScopeRow, _SCOPES, ids)]


def _scope(row: _ScopeRow) -> Scope:
    level, policy = Level(row.level), row.policy
    limits = {limit: value for limit, value in policy_limits(policy).items() if applies_at(limit, level)}
    return Scope(
        level,
        row.id,
        row.name,
        policy["name"],
        limits,
        row.used,
        policy_allow_lists(policy),
        is_central=policy["domain_id"] is None,
        use_rule=UtilizationRule(policy["use_rule"]),
    )


def actor_user_scope(actor: Actor) -> list[Scope]:
    """Return the actor's own policy with its current use; empty for the system. One query."""
    return read_scopes(ScopeIds(user=actor.user_id).keys())


def user_scopes(user: User, project: Project | None = None) -> list[Scope]:
    """Return the scopes whose limits apply to `user` in `project`, without a keypair. One query."""
    domain_id = project.domain_id if project else user.domain_id
    return read_scopes(ScopeIds(domain_id, project.pk if project else None, user.pk).keys())


def limit_exceeded(
    states: Collection[LimitState], budgets: Sequence[str] = (), lists: Collection[ScopeAllowList] = ()
) -> LimitExceeded:
    """Build the error that names all exceeded limits, allow-lists and used-up budgets."""
    fields: dict[str, list[str]] = {}
    for state in states:
        if field := FIELDS.get(limit_kind(state.limit)):
            fields.setdefault(field, []).append(state.refusal)
    for each in lists:
        fields.setdefault(ALLOW_FIELDS[each.kind], []).append(each.refusal)
    hints = dict.fromkeys(HINTS[kind] for state in states if (kind := limit_kind(state.limit)) in HINTS)
    if lists and not states and not budgets:
        default_hint = _("Choose another one, or ask for it to be allowed.")
    elif budgets and not states:
        default_hint = _("Wait until the period ends, or ask an administrator for a larger budget.")
    else:
        default_hint = _("Ask for less, or ask an administrator for a higher limit.")
    return LimitExceeded(
        paragraph((*(state.refusal for state in states), *(each.refusal for each in lists), *budgets)),
        hint=paragraph(_(hint) for hint in hints) or default_hint,
        fields=fields,
        limits=[limit_json(state) for state in states],
        allow_lists=[
            {**allow_list_json(each), "asked": each.asked, "message": each.refusal} for each in lists
        ],
        budgets=budgets,
    )


def limit_json(state: LimitState) -> dict[str, Any]:
    return {**{name: getattr(state, name) for name in LimitState.__slots__}, "message": state.refusal}


def allow_list_json(allowance: ScopeAllowList) -> dict[str, Any]:
    return {
        "list": allowance.kind.value,
        **{name: getattr(allowance, name) for name in ("level", "scope", "policy", "entries")},
    }


def write_within_limits(write: Callable[[], Written]) -> Written:
    """Run `write` in a transaction and return its result. `write` checks limits itself and raises
    readable errors. If a concurrent transaction used the rest and the database rejects the rows,
    `write` runs again, at most TRIES times in all. Raises LimitExceeded.
    """
    for _attempt in range(TRIES):
        try:
            with transaction.atomic():
                return write()
        except IntegrityError as error:
            if constraint_of(error) != WITHIN_LIMITS:
                raise
    raise LimitExceeded(_("Others took what was left at the same moment."), hint=_("Try again."))


def default_policy() -> ResourcePolicy:
    """Return the default policy of new users: the marked one, else the one named “default”, which
    is created if missing.
    """
    marked = ResourcePolicy.objects.filter(is_default=True).first()
    defaults = {"is_default": True, **DEFAULT_LIMITS}
    return marked or ResourcePolicy.objects.get_or_create(name="default", domain=None, defaults=defaults)[0]


def check_limits(
    states: Iterable[LimitState], budgets: Sequence[str] = (), lists: Collection[ScopeAllowList] = ()
) -> None:
    """Raise LimitExceeded if any limit is hit, any budget is used up or any allow-list lacks the
    request. `budgets` are sentences of used-up budgets, `lists` the allow-lists that refuse.
    """
    found = tuple(states)
    if found or budgets or lists:
        raise limit_exceeded(found, budgets, lists)
