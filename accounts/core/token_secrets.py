"""Generates and hashes API secrets. Pure.

A secret has 256 random bits and cannot be guessed, so one round of SHA-256 suffices.
"""

import base64
import hashlib
import re
import secrets
from datetime import datetime, timedelta

from common.i18n import gettext as _
from common.values.text import check_text

MAX_NAME_LENGTH = 60
DEFAULT_LIFETIME = timedelta(days=90)
LONGEST_GRACE = timedelta(hours=24)
# Warnings before expiry, for tokens that live at least twice as long.
EXPIRY_WARNINGS = (timedelta(days=7), timedelta(days=1))
_TOKEN = re.compile(r"(bk[a-z2-7]{16})\.([A-Za-z0-9_-]{43})")


def check_token_name(name: str) -> str:
    """Return `name` stripped. Raises ValueError with a sentence if it cannot name a token."""
    name = check_text(name, max_length=MAX_NAME_LENGTH).strip()
    if not name:
        raise ValueError(_("Give the token a name of 1 to {most} characters.").format(most=MAX_NAME_LENGTH))
    return name


def new_access_key() -> str:
    """Return a new public half of a keypair: "bk" and 16 base32 characters (80 bits)."""
    return "bk" + base64.b32encode(secrets.token_bytes(10)).decode().lower()


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def split_token(token: str) -> tuple[str, str] | None:
    """Split "<access_key>.<secret>" into (access key, secret); None for another format."""
    match = _TOKEN.fullmatch(token)
    return (match[1], match[2]) if match else None


def warning_due(*, created_at: datetime, expires_at: datetime, now: datetime) -> timedelta | None:
    """Return the latest of EXPIRY_WARNINGS that is due; None if none is, or after expiry."""
    left, life = expires_at - now, expires_at - created_at
    due = [before for before in EXPIRY_WARNINGS if left <= before and life >= 2 * before]
    return min(due) if due and left > timedelta() else None
