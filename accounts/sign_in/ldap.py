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

from accounts.core.identity_providers import Directory
from accounts.core.membership_rules import names_of_group
from accounts.sign_in.federation import Claim, read_claim

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


def ask_directory(its: Directory, login: str, password: str) -> Claim | None:
    """Return the identity with this login and password; None if there is none, several, or no
    answer in time.
    """
    if not login or not password or len(password) > LONGEST_PASSWORD:
        return None  # a bind without a password succeeds anonymously and proves nothing
    try:
        entry = _entry_of(its, login)
        if entry is None or not _is_password_of(its, entry["dn"], password):
            return None
    except (LDAPException, OSError) as error:
        if fault := certificate_fault(error):
            log.error("ldap.certificate_refused", url=its.url, fault=fault, hint=HINT)
        else:
            log.warning("ldap.no_answer", url=its.url, error=type(error).__name__)
        return None
    try:
        return _claim_of(its, entry)
    except ValueError as error:
        log.warning("ldap.unreadable_entry", error=str(error))
        return None


def _claim_of(its: Directory, entry: dict[str, Any]) -> Claim:
    found = entry["attributes"]
    return read_claim(
        subject=str(entry["dn"]).lower(),
        is_lasting=False,  # the name of a user who left is given to others
        email=_first(found, its.email_attribute),
        is_verified=True,  # vouched for by the directory, for the mail domains of its settings
        name=_first(found, its.name_attribute),
        groups=frozenset().union(*map(names_of_group, _all(found, its.group_attribute))),
    )


def certificate_fault(error: Exception) -> str:
    """Return the fault of the directory's certificate for administrators; "" for other errors."""
    text = str(error)
    return next((sentence for sign, sentence in FAULTS.items() if sign in text), "")


def _entry_of(its: Directory, login: str) -> dict[str, Any] | None:
    """Return the single entry that matches the filter, else None. The login is escaped."""
    with _bound(its, its.bind_dn, its.secret) as connection:
        connection.search(
            its.base,
            its.filter.format(login=escape_filter_chars(login)),
            search_scope=SUBTREE,
            attributes=[its.email_attribute, its.name_attribute, its.group_attribute],
            size_limit=AMBIGUOUS,
            time_limit=ANSWER_S,
        )
        entries = [each for each in connection.response or () if each["type"] == "searchResEntry"]
    return entries[0] if len(entries) == 1 else None


def _is_password_of(its: Directory, dn: str, password: str) -> bool:
    connection = _connection(its, dn, password)
    try:
        _secure(its, connection)
        return bool(connection.bind())
    finally:
        connection.unbind()


def _bound(its: Directory, dn: str, password: str) -> Connection:
    """Return a bound connection. Raises LDAPException if the directory rejects the password."""
    connection = _connection(its, dn, password)
    _secure(its, connection)
    if not connection.bind():
        connection.unbind()
        raise LDAPException("bind refused")
    return connection


def _connection(its: Directory, dn: str, password: str) -> Connection:
    tls = Tls(validate=ssl.CERT_REQUIRED, version=ssl.PROTOCOL_TLS_CLIENT, ca_certs_file=its.ca_file or None)
    server = Server(its.url, connect_timeout=CONNECT_S, get_info=NONE, tls=tls)
    return Connection(
        server, user=dn, password=password, receive_timeout=ANSWER_S, auto_referrals=False, read_only=True,
        check_names=False, return_empty_attributes=False,
    )  # fmt: skip


def _secure(its: Directory, connection: Connection) -> None:
    """Open the connection, with StartTLS if set. Raises LDAPException, so that no password is sent
    in the clear.
    """
    connection.open()
    if its.starts_tls and not connection.start_tls():
        raise LDAPException("no TLS")


def _all(attributes: dict[str, Any], name: str) -> list[str]:
    found: Any = next((its for key, its in attributes.items() if key.lower() == name.lower()), [])
    values = found if isinstance(found, (list, tuple)) else [found]
    return [value.decode(errors="replace") if isinstance(value, bytes) else str(value) for value in values]


def _first(attributes: dict[str, Any], name: str) -> str:
    return next(iter(_all(attributes, name)), "")
