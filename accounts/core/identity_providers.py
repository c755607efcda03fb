"""Parses the settings of identity providers (OIDC, LDAP): trusted mail domains and onboarding of
new users. Pure.

Invalid settings stop the start of Berth with an error that names the variable.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from accounts.core.membership_rules import group_name
from accounts.core.sign_up import check_mail_domains, mail_domain

ALL_MAIL_DOMAINS = "*"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_ID = re.compile(r"[a-z][a-z0-9]{0,30}")


class UnknownUser(StrEnum):
    """Treatment of a signed-in person without an account here."""

    REFUSE = "refuse"
    CREATE = "create"


@dataclass(frozen=True, slots=True)
class OnboardingRules:
    """Onboarding rules of one provider. `trusts`: mail domains for which its addresses count as
    verified; ALL_MAIL_DOMAINS means all. `domain` and `projects` apply to new users. `groups` is
    {provider group: projects}; None if the provider reports no groups.
    """

    trusts: tuple[str, ...]
    unknown: UnknownUser = UnknownUser.REFUSE
    domain: str = ""
    projects: tuple[str, ...] = ()
    groups: Mapping[str, tuple[str, ...]] | None = None

    def vouches_for(self, email: str) -> bool:
        return ALL_MAIL_DOMAINS in self.trusts or mail_domain(email) in self.trusts

    def projects_of_groups(self, groups: frozenset[str]) -> frozenset[str]:
        mapped = (names for group, names in (self.groups or {}).items() if group in groups)
        return frozenset(name for names in mapped for name in names)

    @property
    def mapped_projects(self) -> frozenset[str]:
        return frozenset(name for names in (self.groups or {}).values() for name in names)


@dataclass(frozen=True, slots=True)
class OidcProvider:
    id: str
    name: str
    issuer: str
    client_id: str
    secret: str
    groups_claim: str
    onboarding: OnboardingRules


class InvalidSetting(ValueError):
    """Invalid environment variable; the message names it."""


def read_text_file(path: str) -> str:
    return Path(path).read_text()


def read_oidc_providers(
    environment: Mapping[str, str], read_file: Callable[[str], str] = read_text_file
) -> tuple[OidcProvider, ...]:
    """Read the providers that BERTH_OIDC lists. Raises InvalidSetting."""
    ids = environment.get("BERTH_OIDC", "").split()
    for each in ids:
        if not _ID.fullmatch(each):
            raise InvalidSetting(
                f"BERTH_OIDC: {each!r} is no name of a provider: lower-case letters and digits."
            )
    return tuple(
        _oidc_provider(each, Variables(environment, f"BERTH_OIDC_{each.upper()}_"), read_file) for each in ids
    )


def _oidc_provider(provider_id: str, variables: "Variables", read_file: Callable[[str], str]) -> OidcProvider:
    issuer = variables.needed("ISSUER")
    check_tls(issuer, variables.name("ISSUER"))
    return OidcProvider(
        id=provider_id,
        name=variables.get("NAME", provider_id.capitalize()),
        issuer=issuer,
        client_id=variables.needed("CLIENT_ID"),
        secret=variables.secret("SECRET_FILE", read_file),
        groups_claim=variables.get("GROUPS_CLAIM", "groups"),
        onboarding=read_onboarding_rules(variables),
    )


def read_onboarding_rules(variables: "Variables") -> OnboardingRules:
    """Read the settings that all kinds of providers share. Raises InvalidSetting."""
    names = variables.needed("TRUSTS").split()
    try:
        trusts = tuple(names) if names == [ALL_MAIL_DOMAINS] else tuple(check_mail_domains(names))
    except ValueError as error:
        raise InvalidSetting(f"{variables.name('TRUSTS')}: {error}") from error
    try:
        unknown = UnknownUser(variables.get("UNKNOWN", UnknownUser.REFUSE.value))
    except ValueError as error:
        raise InvalidSetting(f"{variables.name('UNKNOWN')} is neither “refuse” nor “create”.") from error
    if unknown is UnknownUser.CREATE and not variables.get("DOMAIN"):
        raise InvalidSetting(
            f"{variables.name('DOMAIN')} says in which domain new people are; give it a name."
        )
    return OnboardingRules(
        trusts=trusts,
        unknown=unknown,
        domain=variables.get("DOMAIN"),
        projects=tuple(variables.get("PROJECTS").split()),
        groups=_groups(variables) if variables.get("GROUPS") else None,
    )


def check_tls(url: str, name: str) -> None:
    """Raise InvalidSetting unless the URL uses TLS; plain HTTP is accepted for loopback addresses only."""
    parts = urlsplit(url)
    is_safe = parts.scheme == "https" or parts.hostname in LOOPBACK
    if not parts.hostname or parts.scheme not in ("https", "http") or not is_safe:
        raise InvalidSetting(f"{name}: {url!r} is no address over TLS.")


def _groups(variables: "Variables") -> dict[str, tuple[str, ...]]:
    """Parse e.g. `staff:vision,teaching; students:teaching`; names of groups may contain spaces."""
    found = {}
    for part in filter(None, (part.strip() for part in variables.get("GROUPS").split(";"))):
        group, colon, projects = part.rpartition(":")
        names = tuple(name.strip() for name in projects.split(",") if name.strip())
        if not colon or not group.strip() or not names:
            raise InvalidSetting(f"{variables.name('GROUPS')}: {part!r} is not “group:project,project”.")
        found[group_name(group.strip())] = names
    return found


@dataclass(frozen=True, slots=True)
class Variables:
    """Environment variables with the prefix `prefix`."""

    environment: Mapping[str, str]
    prefix: str

    def name(self, end: str) -> str:
        return self.prefix + end

    def get(self, end: str, default: str = "") -> str:
        return self.environment.get(self.name(end), "").strip() or default

    def needed(self, end: str) -> str:
        if not self.get(end):
            raise InvalidSetting(f"{self.name(end)} is not set.")
        return self.get(end)

    def secret(self, end: str, read: Callable[[str], str]) -> str:
        """Return the content of the file that the variable names. Raises InvalidSetting if it is unreadable
        or empty.
        """
        try:
            secret = read(self.needed(end)).strip()
        except OSError as error:
            raise InvalidSetting(f"{self.name(end)}: {error}") from error
        if not secret:
            raise InvalidSetting(f"{self.name(end)}: the file is empty.")
        return secret


@dataclass(frozen=True, slots=True)
class LdapDirectory:
    """An LDAP directory that verifies passwords. `starts_tls`: use StartTLS on an ldap:// URL.
    `ca_file`: trusted certificate authorities; "" means those of the operating system.
    """

    url: str
    starts_tls: bool
    bind_dn: str
    secret: str
    base: str
    filter: str
    email_attribute: str
    name_attribute: str
    group_attribute: str
    onboarding: OnboardingRules
    ca_file: str = ""


def read_directory(
    environment: Mapping[str, str], read_file: Callable[[str], str] = read_text_file
) -> LdapDirectory | None:
    """Read the directory of BERTH_LDAP_URL; None if it is unset. Raises InvalidSetting."""
    variables = Variables(environment, "BERTH_LDAP_")
    if not variables.get("URL"):
        return None
    url, pattern = variables.get("URL"), variables.get("FILTER", "(mail={login})")
    parts = urlsplit(url)
    if parts.scheme not in ("ldap", "ldaps") or not parts.hostname:
        raise InvalidSetting(f"{variables.name('URL')}: {url!r} is no ldap:// or ldaps:// address.")
    if pattern.count("{login}") != 1 or not (pattern.startswith("(") and pattern.endswith(")")):
        raise InvalidSetting(
            f"{variables.name('FILTER')}: {pattern!r} is no filter in brackets with one {{login}} in it."
        )
    return LdapDirectory(
        url=url,
        starts_tls=parts.scheme == "ldap" and parts.hostname not in LOOPBACK,
        bind_dn=variables.needed("BIND_DN"),
        secret=variables.secret("SECRET_FILE", read_file),
        base=variables.needed("BASE"),
        filter=pattern,
        email_attribute=variables.get("EMAIL_ATTRIBUTE", "mail"),
        name_attribute=variables.get("NAME_ATTRIBUTE", "cn"),
        group_attribute=variables.get("GROUP_ATTRIBUTE", "memberOf"),
        ca_file=_ca_file(variables, read_file),
        onboarding=read_onboarding_rules(variables),
    )


def _ca_file(variables: Variables, read: Callable[[str], str]) -> str:
    if variables.get("CA_FILE") and "BEGIN CERTIFICATE" not in variables.secret("CA_FILE", read):
        raise InvalidSetting(f"{variables.name('CA_FILE')}: there is no certificate in the file (PEM).")
    return variables.get("CA_FILE")
