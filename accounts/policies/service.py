"""Creates, changes, deletes and assigns resource policies.

Running sessions continue even above a limit (ADR 0024), except for rules on when sessions end
(`accounts.core.utilization.may_end_sessions`).
"""

from collections.abc import Collection, Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.admission_gate import precede_admissions
from accounts.core import authorization
from accounts.core.authorization import Action
from accounts.core.limits import Level, Scope, format_limit, is_floor, is_looser
from accounts.core.utilization import UtilizationRule
from accounts.models import (
    ALLOW_COLUMNS,
    COLUMNS,
    SLOT_COLUMNS,
    Domain,
    KeyPair,
    Project,
    ResourcePolicy,
    User,
    limit_column,
    policy_limits,
)
from accounts.policies.selectors import access_policy, limited_objects
from accounts.selectors import (
    access_domain,
    access_project,
    access_user,
    may_do_everything,
    permission_refusal,
    read_actor_scope,
    require_superadmin,
)
from common.actors import Actor
from common.audit import audit_log
from common.db.row_locks import RowLock, lock_by_id
from common.db.validation import validate_model
from common.errors import Conflict, InvalidInput, NotFound

LimitedObject = Domain | Project | User | KeyPair
SHOWN = 5


@transaction.atomic
def create_policy(
    *, actor: Actor, name: str, domain: Domain | None = None, limits: Mapping[str, Any] | None = None
) -> ResourcePolicy:
    """Create a policy of a domain, or of the whole installation without one. `limits` are columns
    of ResourcePolicy. Raises InvalidInput, PermissionDenied.
    """
    if Action.CREATE not in authorization.policy_actions(
        read_actor_scope(actor), domain.pk if domain else None
    ):
        raise permission_refusal(
            _("You may not create the policy “{name}” there: only in your own domain, as its administrator."),
            name,
        )
    policy = ResourcePolicy(name=name, domain=domain, **(limits or {}))
    _check(policy)

    policy.save()
    audit_log.record(actor=actor, action="accounts.create_policy", target=policy, changes=_values(policy))
    return policy


@transaction.atomic
def update_policy(
    *, actor: Actor, policy_id: int, name: str | None = None, limits: Mapping[str, Any] | None = None
) -> ResourcePolicy:
    """Set name or limits that are given. Raises NotFound, PermissionDenied, InvalidInput."""
    policy = _lock_policy(actor, policy_id, Action.EDIT)
    _require_not_own_policy(actor, policy)
    before = _values(policy)
    policy.name = policy.name if name is None else name
    for column, value in (limits or {}).items():
        setattr(policy, column, value)
    _check(policy)

    changes = audit_log.changed(before, _values(policy))
    policy.save(update_fields=list(changes) or None)
    audit_log.record(actor=actor, action="accounts.update_policy", target=policy, changes=changes)
    return policy


@transaction.atomic
def make_default(*, actor: Actor, policy_id: int) -> ResourcePolicy:
    """Make a policy the default of new users. Raises NotFound, PermissionDenied, Conflict."""
    access_policy(actor, policy_id, Action.EDIT)
    require_superadmin(actor)
    precede_admissions()
    ResourcePolicy.objects.select_for_update().filter(is_default=True).first()
    policy = access_policy(actor, policy_id, Action.EDIT)
    if policy.domain is not None:
        raise Conflict(
            _("The policy “{name}” is of one domain, so it cannot be what all new people get.").format(
                name=policy.name
            ),
            hint=_("Copy it for the whole installation first."),
        )
    if policy.is_default:
        return policy

    ResourcePolicy.objects.filter(is_default=True).update(is_default=False)
    policy.is_default = True
    policy.save(update_fields=["is_default"])
    audit_log.record(
        actor=actor, action="accounts.update_policy", target=policy, changes={"is_default": [False, True]}
    )
    return policy


@transaction.atomic
def delete_policy(*, actor: Actor, policy_id: int) -> None:
    """Delete an unused policy. Raises NotFound, PermissionDenied, Conflict (in use, or the default)."""
    policy = _lock_policy(actor, policy_id, Action.PURGE)
    if policy.is_default:
        raise Conflict(
            _("New people get the policy “{name}”.").format(name=policy.name),
            hint=_("Let them get another one first."),
        )
    if used_by := limited_objects(actor, policy, most=SHOWN + 1):
        names = ", ".join(name for _level, _id, name in used_by[:SHOWN])
        raise Conflict(
            _("The policy “{name}” is in use: {users}.").format(
                name=policy.name, users=f"{names} …" if len(used_by) > SHOWN else names
            ),
            hint=_("Give them another policy first."),
        )

    audit_log.record(actor=actor, action="accounts.delete_policy", target=policy)
    policy.delete()


@transaction.atomic
def assign_policy(*, actor: Actor, target: LimitedObject, policy: ResourcePolicy | None) -> None:
    """Assign a policy, or none. Raises NotFound, PermissionDenied, InvalidInput."""
    _require_may_limit(actor, target)
    precede_admissions()
    # FOR UPDATE, and before the policy: admission by a token's limits locks it FOR KEY SHARE (ADR
    # 8).
    before = type(target)._default_manager.select_for_update(of=("self",)).select_related("policy")
    previous = before.get(pk=target.pk).policy
    lock_policies([policy] if policy is not None else [])
    if previous == policy:
        return
    check_assignable(actor, target, previous, policy)

    target.policy = policy
    target.save(update_fields=["policy"])
    changes = {"policy": [previous and previous.name, policy and policy.name]}
    audit_log.record(actor=actor, action="accounts.assign_policy", target=target, changes=changes)


def lock_policies(policies: Collection[ResourcePolicy]) -> None:
    """Lock these policies against deletion until the transaction ends. One query, none without
    policies. Raises NotFound.
    """
    named = {policy.pk: policy for policy in policies}
    locked = {policy.pk for policy in lock_by_id(ResourcePolicy, named, RowLock.KEY_SHARE)}
    for key in named.keys() - locked:
        raise NotFound(_("The policy “{name}” was deleted meanwhile.").format(name=named[key].name))


def access_limited(actor: Actor, level: Level, scope_id: int) -> LimitedObject:
    """Fetch an object to which the actor may assign a policy. Raises NotFound, PermissionDenied."""
    if level is Level.DOMAIN:
        return access_domain(actor, scope_id, Action.LIMIT)
    if level is Level.PROJECT:
        return access_project(actor, scope_id, Action.LIMIT)
    if level is Level.USER:
        return access_user(actor, scope_id, Action.LIMIT)
    keypair = KeyPair.objects.select_related("user").filter(pk=scope_id).first()
    try:
        access_user(actor, keypair.user_id if keypair else 0, Action.LIMIT)
    except NotFound as error:
        raise NotFound(_("There is no such token among those that you may limit.")) from error
    assert keypair is not None
    return keypair


def target_domain_id(target: LimitedObject) -> int:
    return target.user.domain_id if isinstance(target, KeyPair) else target.domain_id


def target_level(target: LimitedObject) -> Level:
    return Level(str(target._meta.model_name))


def _lock_policy(actor: Actor, policy_id: int, action: Action) -> ResourcePolicy:
    """Lock and return the policy for a change, before admissions that begin later. Raises NotFound,
    PermissionDenied.
    """
    access_policy(actor, policy_id, action)
    precede_admissions()
    ResourcePolicy.objects.select_for_update().filter(pk=policy_id).first()
    return access_policy(actor, policy_id, action)


def _require_may_limit(actor: Actor, target: LimitedObject) -> None:
    if not may_do_everything(actor):
        access_limited(actor, target_level(target), target.pk)


def check_assignable(
    actor: Actor, target: LimitedObject, previous: ResourcePolicy | None, policy: ResourcePolicy | None
) -> None:
    """Check that a domain's policy is assigned only to objects of that domain, and that only a
    superadmin replaces or assigns an installation-wide policy other than the default. Raises
    InvalidInput, PermissionDenied.
    """
    home = target_domain_id(target)
    is_foreign = policy is not None and policy.domain_id not in (None, home)
    is_of_it = policy is not None and policy.domain_id is not None and isinstance(target, Domain)
    if policy is not None and (is_foreign or is_of_it):
        sentence = _("The policy “{name}” is for projects, people and tokens of its own domain.")
        raise InvalidInput.at("policy", sentence.format(name=policy.name))
    if may_do_everything(actor):
        return
    for each in (previous, policy):
        if each is not None and each.domain_id is None and not each.is_default:
            raise permission_refusal(
                _("The policy “{name}” is of the whole installation; superadmins assign it."), each.name
            )


def _require_not_own_policy(actor: Actor, policy: ResourcePolicy) -> None:
    if not may_do_everything(actor) and User.objects.filter(pk=actor.user_id or 0, policy=policy).exists():
        raise permission_refusal(_("The policy “{name}” limits you, so others change it."), policy.name)


def _check(policy: ResourcePolicy) -> None:
    """Validate a policy. Raises InvalidInput with the errors of each field."""
    validate_model(policy)
    if policy.domain is None or policy.domain.policy is None:
        return
    domain_policy = policy.domain.policy
    domain_scope = Scope(
        Level.DOMAIN,
        policy.domain.pk,
        policy.domain.name,
        "",
        policy_limits(vars(domain_policy)),
        use_rule=UtilizationRule(domain_policy.use_rule),
    )
    fields: dict[str, list[str]] = {}
    for limit, value in policy_limits(vars(policy)).items():
        if (
            limit in domain_scope.limits
            and not domain_scope.is_joint(limit)
            and is_looser(limit, value, domain_scope.limits[limit])
        ):
            bound = (
                _("The domain “{name}” wants at least {value}.")
                if is_floor(limit)
                else _("The domain “{name}” allows at most {value}.")
            )
            sentence = bound.format(
                name=domain_scope.name, value=format_limit(limit, domain_scope.limits[limit])
            )
            fields.setdefault(limit_column(limit), []).append(sentence)
    if fields:
        raise InvalidInput(next(iter(fields.values()))[0], fields=fields)


def _values(policy: ResourcePolicy) -> dict[str, Any]:
    columns = ("name", *COLUMNS.values(), "use_rule", *SLOT_COLUMNS.values(), *ALLOW_COLUMNS.values())
    return {column: getattr(policy, column) for column in columns}
