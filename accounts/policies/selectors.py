"""Queries for resource policies: visibility, limited scopes, and the impact of a change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Count, Q, QuerySet, Value
from django.utils.translation import gettext as _

from accounts.core import authorization
from accounts.core.authorization import Action, ActorScope
from accounts.core.limits import Level, LimitState
from accounts.core.utilization import may_end_sessions
from accounts.models import Domain, KeyPair, LimitUse, Project, ResourcePolicy, User, policy_limits
from accounts.selectors import may_do_everything, permission_refusal, read_actor_scope, sees_everything
from common.actors import Actor
from common.errors import Conflict, NotFound
from common.values.text import quoted

SHOWN_ABOVE = 20
MODELS: Mapping[Level, type[Domain] | type[Project] | type[User] | type[KeyPair]] = {
    Level.DOMAIN: Domain,
    Level.PROJECT: Project,
    Level.USER: User,
    Level.KEYPAIR: KeyPair,
}
# Lookups for the domain and the display name of each level.
_DOMAIN_OF = {
    Level.DOMAIN: "pk",
    Level.PROJECT: "domain_id",
    Level.USER: "domain_id",
    Level.KEYPAIR: "user__domain_id",
}
_NAME_OF = {Level.DOMAIN: "name", Level.PROJECT: "name", Level.USER: "email", Level.KEYPAIR: "name"}
_ABOVE = f"""
    SELECT scope.level, scope.name, use.resource, wanted.most, use.used, count(*) OVER ()
    FROM (
        SELECT 'domain' AS level, id, name FROM {Domain._meta.db_table} WHERE policy_id = %(policy)s
        UNION ALL SELECT 'project', id, name FROM {Project._meta.db_table} WHERE policy_id = %(policy)s
        UNION ALL SELECT 'user', id, email FROM {User._meta.db_table} WHERE policy_id = %(policy)s
        UNION ALL SELECT 'keypair', id, name FROM {KeyPair._meta.db_table} WHERE policy_id = %(policy)s
    ) AS scope
    JOIN {LimitUse._meta.db_table} AS use ON use.level = scope.level AND use.scope_id = scope.id
    JOIN unnest(%(limits)s::text[], %(values)s::bigint[]) AS wanted (resource, most) ON wanted.resource = use.resource
    WHERE use.used > wanted.most
    ORDER BY use.used::numeric / greatest(wanted.most, 1) DESC, scope.name, use.resource
    LIMIT {SHOWN_ABOVE}
"""


@dataclass(frozen=True, slots=True)
class Impact:
    """Effect of new limits: scopes limited by the policy, by level; scopes above the new limits,
    furthest above first, and their total number. `is_ending`: running sessions may end.
    """

    counts: Mapping[Level, int]
    above: tuple[LimitState, ...] = ()
    above_count: int = 0
    is_ending: bool = False

    @property
    def scope_count(self) -> int:
        return sum(self.counts.values())


def visible_policies(actor: Actor, actor_scope: ActorScope | None = None) -> QuerySet[ResourcePolicy]:
    """Policies the actor may see. Superadmins and monitors: all. Domain admins and monitors: those
    of the own domain, and of the installation-wide ones the default and those in use in the domain.
    Others: none. No query if `actor_scope` is given.
    """
    policies = ResourcePolicy.objects.select_related("domain")
    if sees_everything(actor):
        return policies
    actor_scope = actor_scope or read_actor_scope(actor)
    if Action.VIEW not in authorization.policy_actions(actor_scope, actor_scope.domain_id):
        return policies.none()
    home = actor_scope.domain_id
    limits_here = (
        Q(is_default=True)
        | Q(pk__in=Domain.objects.filter(pk=home).values("policy_id"))
        | Q(pk__in=Project.objects.filter(domain_id=home).values("policy_id"))
        | Q(pk__in=User.objects.filter(domain_id=home).values("policy_id"))
    )
    return policies.filter(Q(domain_id=home) | Q(domain=None) & limits_here)


def access_policy(actor: Actor, policy_id: int, action: Action) -> ResourcePolicy:
    """Fetch one policy for an action. Raises NotFound, PermissionDenied."""
    policy = visible_policies(actor).filter(pk=policy_id).first()
    if policy is None:
        raise NotFound(_("There is no such resource policy among those that you may see."))
    if action is not Action.VIEW and action not in authorization.policy_actions(
        read_actor_scope(actor), policy.domain_id
    ):
        raise permission_refusal(
            _("You may not change the policy “{name}”: it is not of your domain."), policy.name
        )
    return policy


def find_policy(actor: Actor, name: str) -> ResourcePolicy:
    """Return the visible policy with this name. Raises NotFound, or Conflict if several have it."""
    found = list(visible_policies(actor).filter(name=name)[:2])
    if not found:
        sentence = _("There is no resource policy {name} among those that you may see.").format(
            name=quoted(name, 64)
        )
        raise NotFound.at("policy", sentence)
    if len(found) > 1:
        raise Conflict(
            _("Several policies are called {name}.").format(name=quoted(name, 64)),
            hint=_("Say its number instead."),
        )
    return found[0]


def assignable_policies(
    actor: Actor, level: Level, domain_id: int, actor_scope: ActorScope | None = None
) -> QuerySet[ResourcePolicy]:
    """Policies that `actor` may assign to an object of that domain, by name. For a domain itself
    only installation-wide ones, because its own administrators do not limit it.
    """
    policies = visible_policies(actor, actor_scope).order_by("name")
    is_general = Q(domain=None) if may_do_everything(actor) else Q(domain=None, is_default=True)
    if level is Level.DOMAIN:
        return policies.filter(is_general)
    return policies.filter(is_general | Q(domain_id=domain_id))


def use_counts(actor: Actor, policies: Iterable[ResourcePolicy]) -> dict[int, dict[Level, int]]:
    """Count the scopes that each policy limits, by policy id and level, within the domain that the
    actor oversees. One query for any number of policies.
    """
    ids = [policy.pk for policy in policies]
    counts: dict[int, dict[Level, int]] = {pk: dict.fromkeys(Level, 0) for pk in ids}
    first, *others = (
        _visible_objects(actor, level)
        .filter(policy_id__in=ids)
        .order_by()
        .values_list(Value(level.value), "policy_id")
        .annotate(count=Count("pk"))
        for level in MODELS
    )
    for level, policy_id, count in first.union(*others, all=True):
        counts[policy_id][Level(level)] = count
    return counts


def limited_objects(actor: Actor, policy: ResourcePolicy, *, most: int) -> list[tuple[Level, int, str]]:
    """Return what a policy limits: (level, id, name), at most `most` per level. One query."""
    first, *others = (
        _visible_objects(actor, level)
        .filter(policy_id=policy.pk)
        .order_by(_NAME_OF[level])
        .values_list(Value(level.value), "pk", _NAME_OF[level])[:most]
        for level in MODELS
    )
    rows = [(Level(level), pk, name) for level, pk, name in first.union(*others, all=True)]
    return sorted(rows, key=lambda row: (list(MODELS).index(row[0]), row[2]))


def policy_impact(actor: Actor, policy: ResourcePolicy, columns: Mapping[str, Any]) -> Impact:
    """Return the impact of setting these columns of `policy`. 2 queries."""
    after = {**vars(policy), **columns}
    limits = policy_limits(after)
    with connection.cursor() as cursor:
        wanted: dict[str, Any] = {
            "policy": policy.pk,
            "limits": list(limits),
            "values": list(limits.values()),
        }
        cursor.execute(_ABOVE, wanted)
        rows = cursor.fetchall()
    above = tuple(
        LimitState(limit, Level(level), scope, policy.name, value=most, used=used, left=0)
        for level, scope, limit, most, used, _count in rows
    )
    counts = use_counts(actor, [policy])[policy.pk]
    is_ending = any(counts.values()) and may_end_sessions(vars(policy), after)
    return Impact(counts, above, above_count=rows[0][-1] if rows else 0, is_ending=is_ending)


def _visible_objects(
    actor: Actor, level: Level
) -> QuerySet[Domain] | QuerySet[Project] | QuerySet[User] | QuerySet[KeyPair]:
    """Objects of this level in the domain that the actor oversees."""
    rows = MODELS[level]._default_manager.all()
    if sees_everything(actor):
        return rows
    return rows.filter(**{_DOMAIN_OF[level]: actor.domain_id or 0})
