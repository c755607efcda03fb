"""Checks of certificates that an administrator pastes: which is wrong, and what to do."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID
from django.utils.translation import gettext as _

from common.errors import InvalidInput

LONGEST_PEM = 100_000


@dataclass(frozen=True, slots=True)
class PastedCertificates:
    """PEM texts: the authority of the engine's certificate, and Berth's certificate with its key."""

    ca: str
    certificate: str
    key: str = field(repr=False)


def check_certificates(pasted: PastedCertificates, now: datetime) -> None:
    """Check that the three belong together and are in force. Raises InvalidInput at one of the fields
    ca, certificate, key.
    """
    authorities = _certificates("ca", pasted.ca)
    certificate = _certificates("certificate", pasted.certificate)[0]
    key = _key(pasted)
    if certificate.public_key() != key.public_key():
        raise InvalidInput.at(
            "key",
            _("This key does not belong to the certificate. Paste cert.pem and key.pem of the same client."),
        )
    if not any(_is_authority(each) for each in authorities) and certificate in authorities:
        raise InvalidInput.at(
            "ca", _("This is the client’s certificate once more. Paste ca.pem, the authority of the engine.")
        )
    for name, each in [("certificate", certificate), *(("ca", each) for each in authorities)]:
        _check_time(name, each, now)
    if not _may_be_client(certificate):
        raise InvalidInput.at(
            "certificate",
            _(
                "This certificate is that of a server. Paste the client’s: its extended key usage is clientAuth."
            ),
        )


def _certificates(name: str, text: str) -> list[x509.Certificate]:
    if len(text) > LONGEST_PEM:
        raise InvalidInput.at(name, _("This is too long to be a certificate."))
    if "PRIVATE KEY-----" in text and "BEGIN CERTIFICATE" not in text:
        raise InvalidInput.at(
            name, _("This is a private key, not a certificate. Were the fields swapped? Paste them again.")
        )
    try:
        return x509.load_pem_x509_certificates(text.encode())
    except ValueError as error:
        sentence = _("This is not a certificate. Paste all lines from BEGIN CERTIFICATE to END CERTIFICATE.")
        raise InvalidInput.at(name, sentence) from error


def _key(pasted: PastedCertificates) -> Any:
    if "BEGIN CERTIFICATE" in pasted.key and "PRIVATE KEY-----" not in pasted.key:
        raise InvalidInput.at(
            "key", _("This is a certificate, not a private key. Were the fields swapped? Paste them again.")
        )
    if "ENCRYPTED" in pasted.key:
        raise InvalidInput.at(
            "key", _("This key has a passphrase, which Berth cannot type. Paste a key without one.")
        )
    try:
        return serialization.load_pem_private_key(pasted.key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        sentence = _("This is not a private key. Paste all lines from BEGIN to END PRIVATE KEY.")
        raise InvalidInput.at("key", sentence) from error


def _check_time(name: str, certificate: x509.Certificate, now: datetime) -> None:
    day = "%Y-%m-%d"
    subject = certificate.subject.rfc4514_string()
    if certificate.not_valid_after_utc <= now:
        sentence = _("The certificate “{subject}” ended on {day}. Issue a new one and paste it.")
        raise InvalidInput.at(
            name, sentence.format(subject=subject, day=certificate.not_valid_after_utc.strftime(day))
        )
    if certificate.not_valid_before_utc > now:
        sentence = _("The certificate “{subject}” begins on {day}. Check the clock of this machine.")
        raise InvalidInput.at(
            name, sentence.format(subject=subject, day=certificate.not_valid_before_utc.strftime(day))
        )


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _may_be_client(certificate: x509.Certificate) -> bool:
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return any(
        usage in usages
        for usage in (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)
    )
