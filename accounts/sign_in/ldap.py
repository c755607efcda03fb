"""Looks up users in an LDAP directory and verifies their passwords.

TLS is required except on loopback. A timeout counts as no answer; users with a local password can
sign in by that.
"""

import ssl
from typing import Any

import structlog
from ldap3 import NONE, SUBTREE, Connection, Server, Tls
from ldap3.core.exceptions import LDAPException
from ldap3.utils.conv import escape_filter_chars

from accounts.core.identity_providers import LdapDirectory
from accounts.core.membership_rules import group_aliases
from accounts.sign_in.federation import ProviderIdentity, parse_identity

log = structlog.get_logger(__name__)

CONNECT_S, ANSWER_S = 3, 5
LONGEST_PASSWORD = 1024
AMBIGUOUS = 2
HINT = "Until this is mended nobody signs in by the directory. openssl s_client shows the certificate."
FAULTS = {
    "has expired": "The certificate has expired.",
    "not yet valid": "The certificate is not valid yet; is the clock of this machine right?",
    "doesn't match": "The certificate is for another host than BERTH_LDAP_URL names.",
    "verify failed": "The certificate comes from an authority that is not trusted; BERTH_LDAP_CA_FILE names one.",
}


def authenticate_by_ldap(directory: LdapDirectory, login: str, password: str) -> ProviderIdentity | None:
    """Return the identity with this login and password; None if none, several, or no answer."""
    if not login or not password or len(password) > LONGEST_PASSWORD:
        return None  # a bind without a password succeeds anonymously and proves nothing
    try:
        entry = _find_entry(directory, login)
        if entry is None or not _is_password_valid(directory, entry["dn"], password):
            return None
    except (LDAPException, OSError) as error:
        if fault := certificate_fault(error):
            log.error("ldap.certificate_refused", url=directory.url, fault=fault, hint=HINT)
        else:
            log.warning("ldap.no_answer", url=directory.url, error=type(error).__name__)
        return None
    try:
        return _read_identity(directory, entry)
    except ValueError as error:
        log.warning("ldap.unreadable_entry", error=str(error))
        return None


def _read_identity(directory: LdapDirectory, entry: dict[str, Any]) -> ProviderIdentity:
    found = entry["attributes"]
    return parse_identity(
        subject=str(entry["dn"]).lower(),
        is_lasting=False,  # the name of a user who left is given to others
        email=_first_value(found, directory.email_attribute),
        is_verified=True,  # vouched for by the directory, for the mail domains of its settings
        name=_first_value(found, directory.name_attribute),
        groups=frozenset().union(*map(group_aliases, _attribute_values(found, directory.group_attribute))),
    )


def certificate_fault(error: Exception) -> str:
    """Return the fault of the directory's certificate for administrators; "" for other errors."""
    text = str(error)
    return next((sentence for sign, sentence in FAULTS.items() if sign in text), "")


def _find_entry(directory: LdapDirectory, login: str) -> dict[str, Any] | None:
    """Return the single entry that matches the filter, else None. The login is escaped."""
    with _bind(directory, directory.bind_dn, directory.secret) as connection:
        connection.search(
            directory.base,
            directory.filter.format(login=escape_filter_chars(login)),
            search_scope=SUBTREE,
            attributes=[directory.email_attribute, directory.name_attribute, directory.group_attribute],
            size_limit=AMBIGUOUS,
            time_limit=ANSWER_S,
        )
        entries = [each for each in connection.response or () if each["type"] == "searchResEntry"]
    return entries[0] if len(entries) == 1 else None


def _is_password_valid(directory: LdapDirectory, dn: str, password: str) -> bool:
    connection = _connection(directory, dn, password)
    try:
        _open_secure(directory, connection)
        return bool(connection.bind())
    finally:
        connection.unbind()


def _bind(directory: LdapDirectory, dn: str, password: str) -> Connection:
    """Return a bound connection. Raises LDAPException if the directory rejects the password."""
    connection = _connection(directory, dn, password)
    _open_secure(directory, connection)
    if not connection.bind():
        connection.unbind()
        raise LDAPException("bind refused")
    return connection


def _connection(directory: LdapDirectory, dn: str, password: str) -> Connection:
    tls = Tls(
        validate=ssl.CERT_REQUIRED, version=ssl.PROTOCOL_TLS_CLIENT, ca_certs_file=directory.ca_file or None
    )
    server = Server(directory.url, connect_timeout=CONNECT_S, get_info=NONE, tls=tls)
    return Connection(
        server, user=dn, password=password, receive_timeout=ANSWER_S, auto_referrals=False, read_only=True,
        check_names=False, return_empty_attributes=False,
    )  # fmt: skip


def _open_secure(directory: LdapDirectory, connection: Connection) -> None:
    """Open the connection, with StartTLS if set. Raises LDAPException if TLS fails."""
    connection.open()
    if directory.starts_tls and not connection.start_tls():
        raise LDAPException("no TLS")


def _attribute_values(attributes: dict[str, Any], name: str) -> list[str]:
    found: Any = next((value for key, value in attributes.items() if key.lower() == name.lower()), [])
    values = found if isinstance(found, (list, tuple)) else [found]
    return [value.decode(errors="replace") if isinstance(value, bytes) else str(value) for value in values]


def _first_value(attributes: dict[str, Any], name: str) -> str:
    return next(iter(_attribute_values(attributes, name)), "")
