"""Makes X.509 certificates with keys on the curve P-256. Pure; everything is PEM."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = timedelta(minutes=5)
"""How far certificates begin in the past, for machines whose clocks are slow."""

LONGEST_COMMON_NAME = 64


@dataclass(frozen=True, slots=True)
class Issued:
    """Certificate with its key. `authority` is what the other side must trust to accept it."""

    authority: str
    certificate: str
    key: str = field(repr=False)
    ends_at: datetime


def make_authority(name: str, now: datetime, lifetime: timedelta) -> Issued:
    """Return a new authority that signs nothing but certificates of clients and servers."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = _begin(subject, key, now, now + lifetime).issuer_name(subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(is_authority=True), critical=True)
    certificate = _pem(builder.sign(key, hashes.SHA256()))
    return Issued(certificate, certificate, _key_pem(key), now + lifetime)


def sign_client(authority: Issued, name: str, now: datetime, lifetime: timedelta) -> Issued:
    """Return a certificate for a client of this name."""
    return _sign(authority, name, now, lifetime, ExtendedKeyUsageOID.CLIENT_AUTH, ())


def sign_server(authority: Issued, names: Sequence[str], now: datetime, lifetime: timedelta) -> Issued:
    """Return a certificate for a server with these host names and IP addresses.
    Raises ValueError for a name that is neither.
    """
    if not names:
        raise ValueError("A server's certificate needs a name.")
    alternatives = [_alternative(name) for name in names]
    return _sign(authority, names[0], now, lifetime, ExtendedKeyUsageOID.SERVER_AUTH, alternatives)


def _sign(
    authority: Issued,
    name: str,
    now: datetime,
    lifetime: timedelta,
    usage: x509.ObjectIdentifier,
    alternatives: Sequence[x509.GeneralName],
) -> Issued:
    signer = x509.load_pem_x509_certificate(authority.certificate.encode())
    signing_key = serialization.load_pem_private_key(authority.key.encode(), None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    ends_at = min(now + lifetime, authority.ends_at)
    builder = _begin(_name(name), key, now, ends_at).issuer_name(signer.subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(is_authority=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    certificate = _pem(builder.sign(signing_key, hashes.SHA256()))
    return Issued(authority.certificate, certificate, _key_pem(key), ends_at)


def _begin(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, ends_at: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - BACKDATED).not_valid_after(ends_at)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:LONGEST_COMMON_NAME])])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
