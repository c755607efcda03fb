"""Encryption of texts that the database holds, with keys derived from BERTH_SECRET_KEY."""

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings


class Undecipherable(Exception):
    """The text was encrypted for another purpose, or with another BERTH_SECRET_KEY."""


def encrypt(purpose: str, text: str) -> str:
    """Return `text`, encrypted and signed; each purpose has its own key."""
    return _cipher(purpose).encrypt(text.encode()).decode()


def decrypt(purpose: str, encrypted: str) -> str:
    """Return the text that was encrypted for `purpose`. Raises Undecipherable."""
    try:
        return _cipher(purpose).decrypt(encrypted.encode()).decode()
    except InvalidToken as error:
        raise Undecipherable(
            f"What was encrypted for {purpose} needs the BERTH_SECRET_KEY of then."
        ) from error


def _cipher(purpose: str) -> Fernet:
    digest = hashlib.sha256(f"{purpose}:".encode() + settings.SECRET_KEY.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest))
