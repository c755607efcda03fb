"""All tables of accounts."""

from accounts.models.browser_login import SIGNED_IN, BrowserLogin, SessionStore, SignInLink, Viewing
from accounts.models.budget import Budget, DaySlots, Price, holds_on
from accounts.models.invitation import Invitation, MailDomain
from accounts.models.keypair import KeyPair
from accounts.models.login_attempt import AttemptCount, EndedLogin, KnownPlace
from accounts.models.membership_rule import MembershipRule, RuleFailure
from accounts.models.offboarding import OffBoarding
from accounts.models.people import Domain, Membership, Project, User, name_validator
from accounts.models.policy import (
    ALLOW_COLUMNS,
    COLUMNS,
    SLOT_COLUMNS,
    USE_RULES,
    USUAL_LIMITS,
    LimitUse,
    ResourcePolicy,
    allowed_of,
    column_of,
    limits_of,
)
from accounts.models.preferences import ListColumns
from accounts.models.ssh_key import SshKey
from accounts.models.user_import import PeopleImport, PeopleImportLine

__all__ = [
    "ALLOW_COLUMNS",
    "COLUMNS",
    "SIGNED_IN",
    "SLOT_COLUMNS",
    "USE_RULES",
    "USUAL_LIMITS",
    "AttemptCount",
    "BrowserLogin",
    "Budget",
    "DaySlots",
    "Domain",
    "EndedLogin",
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
    "Viewing",
    "allowed_of",
    "column_of",
    "holds_on",
    "limits_of",
    "name_validator",
]
