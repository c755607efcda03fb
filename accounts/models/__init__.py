"""All tables of accounts."""

from accounts.models.browser_login import SIGNED_IN, BrowserLogin, Impersonation, SessionStore, SignInLink
from accounts.models.budget import Budget, DaySlots, Price, period_contains
from accounts.models.invitation import Invitation, MailDomain
from accounts.models.keypair import KeyPair
from accounts.models.login_attempt import AttemptCount, EndedLogin, KnownPlace
from accounts.models.membership_rule import MembershipRule, RuleFailure
from accounts.models.offboarding import OffBoarding
from accounts.models.people import Domain, Membership, Project, User, name_validator
from accounts.models.policy import (
    ALLOW_COLUMNS,
    COLUMNS,
    DEFAULT_LIMITS,
    SLOT_COLUMNS,
    UTILIZATION_RULES,
    LimitUse,
    ResourcePolicy,
    limit_column,
    policy_allow_lists,
    policy_limits,
)
from accounts.models.preferences import ListColumns
from accounts.models.ssh_key import SshKey
from accounts.models.user_import import PeopleImport, PeopleImportLine

__all__ = [
    "ALLOW_COLUMNS",
    "COLUMNS",
    "DEFAULT_LIMITS",
    "SIGNED_IN",
    "SLOT_COLUMNS",
    "UTILIZATION_RULES",
    "AttemptCount",
    "BrowserLogin",
    "Budget",
    "DaySlots",
    "Domain",
    "EndedLogin",
    "Impersonation",
    "Invitation",
    "KeyPair",
    "KnownPlace",
    "LimitUse",
    "ListColumns",
    "MailDomain",
    "Membership",
    "MembershipRule",
    "OffBoarding",
    "PeopleImport",
    "PeopleImportLine",
    "Price",
    "Project",
    "ResourcePolicy",
    "RuleFailure",
    "SessionStore",
    "SignInLink",
    "SshKey",
    "User",
    "limit_column",
    "name_validator",
    "period_contains",
    "policy_allow_lists",
    "policy_limits",
]
