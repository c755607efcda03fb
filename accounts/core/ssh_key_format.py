"""Parses and validates SSH public keys: one line of an `id_….pub` file. Pure."""

import base64
import binascii
import hashlib
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from common.i18n import gettext as _
from common.values.text import check_text, quoted

MAX_LINE_LENGTH = 8192  # a key of 16384 bits has 2,760 characters
MAX_NAME_LENGTH = 60
LEAST_RSA_BITS = 2048
SECURITY_KEYS = ("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com")
TYPES = (
    "ssh-ed25519",
    *SECURITY_KEYS,
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)
_DSA = "ssh-dss"
_CERTIFICATE = "-cert-v01@openssh.com"
_PRIVATE = ("PRIVATE KEY", "PuTTY-User-Key-File")
_OTHER_FORM = "BEGIN SSH2 PUBLIC KEY"


class PrivateKeyError(ValueError):
    """A private key was pasted. The input is never shown, stored or logged."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """`text` is type and base64 key in canonical form; `comment` is the rest of the line."""

    key_type: str
    text: str
    comment: str = ""

    @property
    def fingerprint(self) -> str:
        """Fingerprint as printed by `ssh-keygen -l`: "SHA256:…"."""
        digest = hashlib.sha256(base64.b64decode(self.text.partition(" ")[2])).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def parse_public_key(line: str) -> PublicKey:
    """Parse one line. Raises PrivateKeyError, or ValueError with a sentence for anything else that
    is not a usable key.
    """
    if any(mark in line for mark in _PRIVATE):
        raise PrivateKeyError(
            _(
                "This is a private key. It was sent over the network now, so take it as leaked: delete it, create a new pair"
                " with ssh-keygen, and paste the file that ends in .pub."
            )
        )
    if _OTHER_FORM in line:
        raise ValueError(_("This is a key in the form of RFC 4716. Convert it: ssh-keygen -i -f FILE"))
    if len(line) > MAX_LINE_LENGTH:
        raise ValueError(
            _("A public key has at most {most} characters; these are {count}.").format(
                most=f"{MAX_LINE_LENGTH:,}", count=f"{len(line):,}"
            )
        )
    line = line.strip()
    if len(line.splitlines()) > 1:
        raise ValueError(_("These are several lines. A public key is one line; add one at a time."))
    key_type, body, comment = _split_line(check_text(line.replace("\t", " "), max_length=MAX_LINE_LENGTH))
    return PublicKey(key_type, f"{key_type} {_check_body(key_type, body)}", comment)


def check_key_name(name: str) -> str:
    """Return `name` stripped; it may be empty. Raises ValueError with a sentence."""
    return check_text(name, max_length=MAX_NAME_LENGTH).strip()


def _split_line(line: str) -> tuple[str, str, str]:
    """Split a line into type, base64 and comment."""
    words = line.split(maxsplit=2)
    if not words:
        raise ValueError(_("Paste the line of a public key, like that of ~/.ssh/id_ed25519.pub."))
    known = ", ".join(TYPES)
    if words[0].endswith(_CERTIFICATE):
        raise ValueError(
            _("This is a certificate. Paste the public key itself, from the file without “-cert”.")
        )
    if words[0] == _DSA:
        raise ValueError(_("DSA keys are too weak. Create another one: ssh-keygen -t ed25519"))
    if words[0] not in TYPES:
        if any(f" {name} " in line for name in TYPES):
            raise ValueError(_("Options stand in front of this key. Paste it from the name of its type on."))
        raise ValueError(
            _("{type} is no type of key that is taken here. These are: {known}.").format(
                type=quoted(words[0]), known=known
            )
        )
    if len(words) == 1:
        raise ValueError(_("Behind the type of the key, the key itself is missing. Paste the whole line."))
    return words[0], words[1], words[2].strip() if len(words) > 2 else ""


def _check_body(key_type: str, body: str) -> str:
    """Return the canonical base64 of a key of that type. Raises ValueError with a sentence."""
    broken = _("The key is damaged or cut off. Paste the whole line again.")
    try:
        wire = base64.b64decode(body, validate=True)
        key = load_ssh_public_key(f"{key_type} {body}".encode())
    except (binascii.Error, ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(broken) from error
    if isinstance(key, RSAPublicKey) and key.key_size < LEAST_RSA_BITS:
        raise ValueError(
            _(
                "This RSA key has {bits} bits; at least {least} are needed. Better: ssh-keygen -t ed25519"
            ).format(bits=key.key_size, least=LEAST_RSA_BITS)
        )
    text = base64.b64encode(wire).decode()
    if key_type not in SECURITY_KEYS:
        alone = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        if alone != f"{key_type} {text}":
            raise ValueError(broken)
    return text
