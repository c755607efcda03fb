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
from accounts.core.sign_up import check_mail_domains, mail_domain_of

EVERY_ADDRESS = "*"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_ID = re.compile(r"[a-z][a-z0-9]{0,30}")


class Unknown(StrEnum):
    """Treatment of a signed-in person without an account here."""

    REFUSE = "refuse"
    CREATE = "create"


@dataclass(frozen=True, slots=True)
class Admission:
    """Onboarding rules of one provider. `trusts`: mail domains for which its addresses count as
    verified; EVERY_ADDRESS means all. `domain` and `projects` apply to new users. `groups` is
    {provider group: projects}; None if the provider reports no groups.
    """

    trusts: tuple[str, ...]
    unknown: Unknown = Unknown.REFUSE
    domain: str = ""
    projects: tuple[str, ...] = ()
    groups: Mapping[str, tuple[str, ...]] | None = None

    def vouches_for(self, email: str) -> bool:
        return EVERY_ADDRESS in self.trusts or mail_domain_of(email) in self.trusts

    def projects_of_groups(self, groups: frozenset[str]) -> frozenset[str]:
        of_each = (names for group, names in (self.groups or {}).items() if group in groups)
        return frozenset(name for names in of_each for name in names)

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
    admission: Admission


class Wrong(ValueError):
    """Invalid environment variable; the message names it."""


def file_text(path: str) -> str:
    return Path(path).read_text()


def read_oidc_providers(
    environment: Mapping[str, str], read_file: Callable[[str], str] = file_text
) -> tuple[OidcProvider, ...]:
    """Read the providers that BERTH_OIDC lists. Raises Wrong."""
    ids = environment.get("BERTH_OIDC", "").split()
    for each in ids:
        if not _ID.fullmatch(each):
            raise Wrong(f"BERTH_OIDC: {each!r} is no name of a provider: lower-case letters and digits.")
    return tuple(
        _oidc_provider(each, Variables(environment, f"BERTH_OIDC_{each.upper()}_"), read_file) for each in ids
    )


def _oidc_provider(provider_id: str, its: "Variables", read_file: Callable[[str], str]) -> OidcProvider:
    issuer = its.needed("ISSUER")
    demand_tls(issuer, its.name("ISSUER"))
    return OidcProvider(
        id=provider_id,
        name=its.get("NAME", provider_id.capitalize()),
        issuer=issuer,
        client_id=its.needed("CLIENT_ID"),
        secret=its.secret("SECRET_FILE", read_file),
        groups_claim=its.get("GROUPS_CLAIM", "groups"),
        admission=read_admission(its),
    )


def read_admission(its: "Variables") -> Admission:
    """Read the settings that all kinds of providers share. Raises Wrong."""
    names = its.needed("TRUSTS").split()
    try:
        trusts = tuple(names) if names == [EVERY_ADDRESS] else tuple(check_mail_domains(names))
    except ValueError as error:
        raise Wrong(f"{its.name('TRUSTS')}: {error}") from error
    try:
        unknown = Unknown(its.get("UNKNOWN", Unknown.REFUSE.value))
    except ValueError as error:
        raise Wrong(f"{its.name('UNKNOWN')} is neither “refuse” nor “create”.") from error
    if unknown is Unknown.CREATE and not its.get("DOMAIN"):
        raise Wrong(f"{its.name('DOMAIN')} says in which domain new people are; give it a name.")
    return Admission(
        trusts=trusts,
        unknown=unknown,
        domain=its.get("DOMAIN"),
        projects=tuple(its.get("PROJECTS").split()),
        groups=_groups(its) if its.get("GROUPS") else None,
    )


def demand_tls(url: str, name: str) -> None:
    """Raise Wrong unless the URL uses TLS; plain HTTP is accepted for loopback addresses only."""
    parts = urlsplit(url)
    is_safe = parts.scheme == "https" or parts.hostname in LOOPBACK
    if not parts.hostname or parts.scheme not in ("https", "http") or not is_safe:
        raise Wrong(f"{name}: {url!r} is no address over TLS.")


def _groups(its: "Variables") -> dict[str, tuple[str, ...]]:
    """Parse e.g. `staff:vision,teaching; students:teaching`; names of groups may contain spaces."""
    found = {}
    for part in filter(None, (part.strip() for part in its.get("GROUPS").split(";"))):
        group, colon, projects = part.rpartition(":")
        names = tuple(name.strip() for name in projects.split(",") if name.strip())
        if not colon or not group.strip() or not names:
            raise Wrong(f"{its.name('GROUPS')}: {part!r} is not “group:project,project”.")
        found[group_name(group.strip())] = names
    return found


@dataclass(frozen=True, slots=True)
class Variables:
    """Environment variables with the prefix `prefix`."""

    environment: Mapping[str, str]
    prefix: str

    def name(self, end: str) -> str:
        return self.prefix + end

    def get(self, end: str, usual: str = "") -> str:
        return self.environment.get(self.name(end), "").strip() or usual

    def needed(self, end: str) -> str:
        if not self.get(end):
            raise Wrong(f"{self.name(end)} is not set.")
        return self.get(end)

    def secret(self, end: str, read: Callable[[str], str]) -> str:
        """Return the content of the file that the variable names. Raises Wrong if it is unreadable
        or empty.
        """
        try:
            secret = read(self.needed(end)).strip()
        except OSError as error:
            raise Wrong(f"{self.name(end)}: {error}") from error
        if not secret:
            raise Wrong(f"{self.name(end)}: the file is empty.")
        return secret


@dataclass(frozen=True, slots=True)
class Directory:
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
    admission: Admission
    ca_file: str = ""


def read_directory(
    environment: Mapping[str, str], read_file: Callable[[str], str] = file_text
) -> Directory | None:
    """Read the directory of BERTH_LDAP_URL; None if it is unset. Raises Wrong."""
    its = Variables(environment, "BERTH_LDAP_")
    if not its.get("URL"):
        return None
    url, pattern = its.get("URL"), its.get("FILTER", "(mail={login})")
    parts = urlsplit(url)
    if parts.scheme not in ("ldap", "ldaps") or not parts.hostname:
        raise Wrong(f"{its.name('URL')}: {url!r} is no ldap:// or ldaps:// address.")
    if pattern.count("{login}") != 1 or not (pattern.startswith("(") and pattern.endswith(")")):
        raise Wrong(f"{its.name('FILTER')}: {pattern!r} is no filter in brackets with one {{login}} in it.")
    return Directory(
        url=url,
        starts_tls=parts.scheme == "ldap" and parts.hostname not in LOOPBACK,
        bind_dn=its.needed("BIND_DN"),
        secret=its.secret("SECRET_FILE", read_file),
        base=its.needed("BASE"),
        filter=pattern,
        email_attribute=its.get("EMAIL_ATTRIBUTE", "mail"),
        name_attribute=its.get("NAME_ATTRIBUTE", "cn"),
        group_attribute=its.get("GROUP_ATTRIBUTE", "memberOf"),
        ca_file=_ca_file(its, read_file),
        admission=read_admission(its),
    )


def _ca_file(its: Variables, read: Callable[[str], str]) -> str:
    if its.get("CA_FILE") and "BEGIN CERTIFICATE" not in its.secret("CA_FILE", read):
        raise Wrong(f"{its.name('CA_FILE')}: there is no certificate in the file (PEM).")
    return its.get("CA_FILE")
