"""SSH public keys in the forms in which users paste them."""

import base64
import struct

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from accounts.core.ssh_key_format import PrivateKeyError, check_key_name, parse_public_key

# ssh-keygen -t ed25519, and what ssh-keygen -l says of it.
KNOWN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKHEChAYcxAiF9LU6lKZaLsn4hjZWL2pHa0lNdvmFXVR"
KNOWN_FINGERPRINT = "SHA256:zWUQli+3kPLaFdrIQqYFPYkYiJBij2lUY6SsQ4wFpAI"


def line_of(key: object) -> str:
    public = key.public_key()  # type: ignore[attr-defined]
    return str(public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())


def rsa_line(bits: int) -> str:
    return line_of(rsa.generate_private_key(65537, bits))


def wire(*parts: bytes) -> str:
    return base64.b64encode(b"".join(struct.pack(">I", len(part)) + part for part in parts)).decode()


def test_the_fingerprint_is_that_of_ssh_keygen() -> None:
    assert parse_public_key(KNOWN).fingerprint == KNOWN_FINGERPRINT


def test_a_comment_is_kept_apart_from_the_key() -> None:
    read = parse_public_key(f"  {KNOWN}  kim at laptop \n")
    assert (read.key_type, read.text, read.comment) == ("ssh-ed25519", KNOWN, "kim at laptop")
    assert parse_public_key(KNOWN.replace(" ", "\t", 1)).text == KNOWN


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_keys_of_curves_are_taken(curve: ec.EllipticCurve) -> None:
    line = line_of(ec.generate_private_key(curve))
    assert parse_public_key(line).text == line


def test_keys_of_security_keys_are_taken_with_their_application() -> None:
    point = ed25519.Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    kind = "sk-ssh-ed25519@openssh.com"
    line = f"{kind} {wire(kind.encode(), point, b'ssh:berth')}"
    assert parse_public_key(line).text == line


def test_rsa_keys_need_2048_bits() -> None:
    assert parse_public_key(rsa_line(2048)).key_type == "ssh-rsa"
    with pytest.raises(ValueError, match="has 1024 bits; at least 2048"):
        parse_public_key(rsa_line(1024))


@pytest.mark.parametrize("form", [PrivateFormat.OpenSSH, PrivateFormat.PKCS8])
def test_a_private_key_counts_as_leaked(form: PrivateFormat) -> None:
    private = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, form, NoEncryption()).decode()
    with pytest.raises(PrivateKeyError, match="take it as leaked") as refusal:
        parse_public_key(private)
    assert private.splitlines()[1] not in str(refusal.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("PuTTY-User-Key-File-3: ssh-ed25519", "take it as leaked"),
        ("", "Paste the line of a public key"),
        (" \n ", "Paste the line of a public key"),
        ("hello", "no type of key"),
        ("ssh-ed25519", "the key itself is missing"),
        (f"{KNOWN}\n{KNOWN}", "several lines"),
        (f"{KNOWN} a\r{KNOWN}", "several lines"),
        (f'from="10.0.0.1",no-pty {KNOWN}', "Options stand in front"),
        ("ssh-dss AAAAB3NzaC1kc3MAAACB", "DSA keys are too weak"),
        ("ssh-ed25519-cert-v01@openssh.com AAAA", "This is a certificate"),
        ("---- BEGIN SSH2 PUBLIC KEY ----\nAAAA", "RFC 4716"),
        (KNOWN[:-8], "damaged or cut off"),
        (KNOWN.replace("AAAAC3", "!!!!"), "damaged or cut off"),
        (KNOWN.replace("ssh-ed25519", "ssh-rsa"), "damaged or cut off"),
        (f"ssh-ed25519 {wire(b'ssh-ed25519', b'x' * 32, b'more')}", "damaged or cut off"),
        (f"{KNOWN} \x1b[31mred", "characters that do not show"),
        (f"{KNOWN} \u202egpj", "characters that do not show"),
        (f"{KNOWN} {'x' * 9000}", "at most 8,192 characters"),
    ],
)
def test_what_is_no_key_is_refused_with_what_to_do(line: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_public_key(line)


def test_an_exponent_that_is_written_in_another_way_is_no_second_key() -> None:
    numbers = rsa.generate_private_key(65537, 2048).public_key().public_numbers()
    modulus = b"\0" + numbers.n.to_bytes(256, "big")
    padded = f"ssh-rsa {wire(b'ssh-rsa', (65537).to_bytes(4, 'big'), modulus)}"
    with pytest.raises(ValueError, match="damaged or cut off"):
        parse_public_key(padded)


def test_names_are_short_and_show() -> None:
    assert check_key_name(" laptop ") == "laptop"
    with pytest.raises(ValueError, match="At most 60"):
        check_key_name("x" * 61)
