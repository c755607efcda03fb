"""Applies membership rules: previews their changes, adds matching users, removes users added by a
rule once none matches. Members added by hand stay.
"""

import math
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.db import transaction
from django.db.models import Exists, IntegerField, OuterRef, QuerySet, Value
from django.db.models.signals import post_save
from django.utils.translation import override

from accounts.admission_gate import precede_admissions
from accounts.core.authorization import Action
from accounts.core.membership_rules import MemberRule, check_rules
from accounts.models import Membership, MembershipRule, Project, RuleFailure, User
from accounts.selectors import access_project
from accounts.tenancy.membership_rules import group_providers, matching_users, read_rules
from accounts.tenancy.service import grant_project_permissions
from common import clock
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.db.row_locks import RowLock, lock_by_id
from common.errors import BerthError, invalid_field
from common.messaging.dispatch import TaskName, enqueue_on_commit

SHOWN = 10
# Users handled within a request; the task `accounts.follow_rules` does the rest.
SYNC_USERS = 100
MOST_AT_A_TIME = 5000  # per project and run of the task
WORK_S = 60
# Account fields that rules depend on.
RULE_FIELDS = frozenset({"email", "domain", "is_active"})

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RuleImpact:
    """Users who would join or leave: their number, and the addresses of the first SHOWN."""

    joining_count: int
    leaving_count: int
    joining: tuple[str, ...]
    leaving: tuple[str, ...]

    @property
    def is_none(self) -> bool:
        return not (self.joining_count or self.leaving_count)


def connect() -> None:
    """Connect the signals that apply rules to new, changed and signed-in users."""
    user_logged_in.connect(_on_sign_in, dispatch_uid="rules-sign-in")
    post_save.connect(_on_save, sender=User, dispatch_uid="rules-person")


def _on_sign_in(sender: object, user: User, **more: Any) -> None:
    _apply_on_commit(user.pk)


def _on_save(sender: object, instance: User, update_fields: frozenset[str] | None, **more: Any) -> None:
    if update_fields is None or update_fields & RULE_FIELDS:
        _apply_on_commit(instance.pk)


def _apply_on_commit(user_id: int) -> None:
    """Apply rules after commit. An error is logged and undoes nothing; the task tries again."""
    transaction.on_commit(lambda: apply_rules_to_user(user_id), robust=True)


def rules_impact(project: Project, rules: Collection[MemberRule]) -> RuleImpact:
    """Return the changes that these rules would make now. Four queries."""
    joining, leaving = _joining_users(project, rules), _leaving_members(project, rules)
    return RuleImpact(
        joining_count=joining.count(),
        leaving_count=leaving.count(),
        joining=tuple(joining.order_by("email").values_list("email", flat=True)[:SHOWN]),
        leaving=tuple(leaving.order_by("user__email").values_list("user__email", flat=True)[:SHOWN]),
    )


def parse_rules(rules: Sequence[tuple[str, str]]) -> tuple[MemberRule, ...]:
    """Build rules from (kind, value) pairs. Raises InvalidInput."""
    with invalid_field("rules"):
        return check_rules(rules, group_providers())


def set_member_rules(*, actor: Actor, project_id: int, rules: Sequence[tuple[str, str]]) -> Project:
    """Replace the rules of a project. The first AT_ONCE affected users join or leave at once,
    others within a minute. Raises NotFound, PermissionDenied, InvalidInput.
    """
    project = _write_rules(actor, project_id, rules)
    apply_rules(project, most=SYNC_USERS)
    return project


@transaction.atomic
def _write_rules(actor: Actor, project_id: int, rules: Sequence[tuple[str, str]]) -> Project:
    access_project(actor, project_id, Action.EDIT)
    wanted = parse_rules(rules)
    precede_admissions()
    project = (
        Project.objects.select_for_update(of=("self",), no_key=True)
        .select_related("domain")
        .get(pk=project_id)
    )
    before = read_rules(project)
    if wanted == before:
        return project

    MembershipRule.objects.filter(project=project).delete()
    MembershipRule.objects.bulk_create(
        MembershipRule(project=project, kind=rule.kind.value, value=rule.value) for rule in wanted
    )
    changes = {"rules": [_rule_texts(before), _rule_texts(wanted)]}
    audit_log.record(actor=actor, action="accounts.set_member_rules", target=project, changes=changes)
    enqueue_on_commit(TaskName.FOLLOW_RULES)
    return project


def apply_all_rules() -> None:
    """Apply the rules of all projects for at most WORK_S. Safe to kill and to run twice; a failing
    project does not stop others.
    """
    until = time.monotonic() + WORK_S
    for project in _projects_with_rules():
        try:
            apply_rules(project, until=until)
        except Exception:  # the next run tries again
            log.exception("rules.failed", project_id=project.pk)


def apply_rules(project: Project, *, most: int | None = None, until: float = math.inf) -> None:
    """Apply the rules of one project to at most `most` users, until the `time.monotonic` instant
    `until`. Failing users do not stop others; they are recorded (`RuleFailure`) and tried last next
    time.
    """
    if time.monotonic() > until:
        return
    for user_id in _pending_user_ids(project, most or MOST_AT_A_TIME):
        if time.monotonic() > until:
            return
        _try_to_apply(project.pk, user_id)


def _pending_user_ids(project: Project, most: int) -> list[int]:
    """Return ids of at most `most` users whose membership differs from the rules, earlier failures
    last. Deletes obsolete failures.
    """
    rules = read_rules(project)
    joining, leaving = _joining_users(project, rules), _leaving_members(project, rules)
    failures = RuleFailure.objects.filter(project=project)
    if failures.exists():
        failures.exclude(user_id__in=joining.values("pk")).exclude(
            user_id__in=leaving.values("user_id")
        ).delete()
    found: list[tuple[bool, int]] = []
    for people, key in ((leaving, "user_id"), (joining, "pk")):
        has_failed = Exists(failures.filter(user_id=OuterRef(key)))
        in_line = people.annotate(has_failed=has_failed).order_by("has_failed", key)
        found += in_line.values_list("has_failed", key)[:most]
    return [user_id for _, user_id in sorted(found, key=itemgetter(0))][:most]


def apply_rules_to_user(user_id: int) -> None:
    """Apply the rules of all projects of the domain to one user. One to three queries."""
    home = User.objects.filter(pk=user_id).values("domain_id")
    own = Membership.objects.filter(project_id=OuterRef("pk"), user_id=user_id)
    projects = _projects_with_rules().filter(domain_id__in=home).prefetch_related("rules")
    projects = projects.annotate(is_in=Exists(own), is_in_by_rule=Exists(own.filter(is_by_rule=True)))
    fitting = _matching_project_ids(user_id, projects)
    for project in projects:
        is_settled = project.is_in if project.pk in fitting else not project.is_in_by_rule
        if not is_settled:
            _try_to_apply(project.pk, user_id)


def _matching_project_ids(user_id: int, projects: Iterable[Project]) -> set[int]:
    """Return the ids of the projects with a rule that matches the user. One query."""
    parts = [
        matching_users(project, read_rules(project))
        .filter(pk=user_id)
        .order_by()
        .values_list(Value(project.pk, IntegerField()), flat=True)
        for project in projects
    ]
    return set(parts[0].union(*parts[1:], all=True)) if parts else set()


def _try_to_apply(project_id: int, user_id: int) -> None:
    try:
        # The reason is read by administrators, not by the user of this request.
        with override(settings.LANGUAGE_CODE):
            _apply_to_user(project_id, user_id)
    except Exception as error:  # the next run tries again
        log.exception("rules.person_failed", project_id=project_id, user_id=user_id)
        facts = {"reason": _failure_reason(error), "tried_at": clock.now()}
        RuleFailure.objects.update_or_create(project_id=project_id, user_id=user_id, defaults=facts)
    else:
        RuleFailure.objects.filter(project_id=project_id, user_id=user_id).delete()


def _failure_reason(error: Exception) -> str:
    """Return Berth's own message, else only the type of the error, whose text may be confidential."""
    if isinstance(error, BerthError):
        return error.message[: RuleFailure.LONGEST_REASON]
    reason = f"{type(error).__name__}; the log has it as rules.person_failed."
    return reason[: RuleFailure.LONGEST_REASON]


@transaction.atomic
def _apply_to_user(project_id: int, user_id: int) -> None:
    """Add or remove one member by the rules, judged again under locks of user and rules."""
    user = User.objects.select_for_update(no_key=True).filter(pk=user_id).first()
    project = next(iter(lock_by_id(Project, [project_id], RowLock.SHARE)), None)
    if user is None or project is None or not project.is_active:
        return
    membership = Membership.objects.filter(project=project, user=user).first()
    fits = matching_users(project, read_rules(project)).filter(pk=user_id).exists()
    facts = {"user": user.email, "by_rule": True}
    if fits and membership is None:
        Membership.objects.create(project=project, user=user, is_by_rule=True)
        audit_log.record(actor=SYSTEM, action="accounts.add_member", target=project, changes=facts)
    elif not fits and membership is not None and membership.is_by_rule:
        membership.delete()
        audit_log.record(actor=SYSTEM, action="accounts.remove_member", target=project, changes=facts)
    else:
        return
    grant_project_permissions(user)


def _projects_with_rules() -> QuerySet[Project]:
    """Active projects with rules, members added by a rule, or failures, by id."""
    failed = RuleFailure.objects.filter(project_id=OuterRef("pk"))
    by_rule = Membership.objects.filter(project_id=OuterRef("pk"), is_by_rule=True)
    ruled = MembershipRule.objects.filter(project_id=OuterRef("pk"))
    projects = Project.objects.filter(
        Exists(ruled) | Exists(by_rule) | Exists(failed), is_active=True, domain__is_active=True
    )
    return projects.order_by("pk")


def _joining_users(project: Project, rules: Collection[MemberRule]) -> QuerySet[User]:
    present = Membership.objects.filter(project=project).values("user_id")
    return matching_users(project, rules).exclude(pk__in=present)


def _leaving_members(project: Project, rules: Collection[MemberRule]) -> QuerySet[Membership]:
    fitting = matching_users(project, rules).values("pk")
    return Membership.objects.filter(project=project, is_by_rule=True).exclude(user_id__in=fitting)


def _rule_texts(rules: Collection[MemberRule]) -> list[str]:
    return [f"{rule.kind}:{rule.value}" if rule.value else rule.kind.value for rule in rules]
