"""Queries for membership rules: rules of a project, matching users, failures."""

from collections.abc import Collection

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.core.membership_rules import MemberRule, RuleKind
from accounts.models import Project, RuleFailure, User

LDAP = "ldap"


def group_providers() -> frozenset[str]:
    """Names of configured providers whose groups count in rules."""
    named = {provider.id for provider in settings.BERTH_OIDC_PROVIDERS}
    return frozenset(named | ({LDAP} if settings.BERTH_DIRECTORY else set()))


def read_rules(project: Project) -> tuple[MemberRule, ...]:
    """Return the rules of a project. One query, or none if `rules` were prefetched."""
    return tuple(MemberRule(RuleKind(row.kind), row.value) for row in project.rules.all())


def rule_failures(project: Project) -> QuerySet[RuleFailure]:
    """Failures of a project's rules with users and reasons, for actors who may change the rules."""
    return RuleFailure.objects.filter(project=project).select_related("user")


def matching_users(project: Project, rules: Collection[MemberRule]) -> QuerySet[User]:
    """Active users of the domain who match a rule. Unverified addresses and groups of unconfigured
    providers never match.
    """
    people = User.objects.filter(domain_id=project.domain_id, is_active=True)
    fits = Q(pk__in=())
    providers = group_providers()
    for rule in rules:
        if rule.kind is RuleKind.ALL:
            return people
        if rule.kind is RuleKind.MAIL:
            unproved = EmailAddress.objects.filter(user_id=OuterRef("pk"), verified=False)
            fits |= Q(email__endswith=f"@{rule.value}") & ~Q(Exists(unproved))
            continue
        provider, _colon, group = rule.value.partition(":")
        if provider in providers:
            known = SocialAccount.objects.filter(provider=provider, extra_data__groups__contains=[group])
            fits |= Q(pk__in=known.values("user_id"))
    return people.filter(fits)
