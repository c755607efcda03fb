"""Create and derive the secret that signs a user's callbacks. Shown once, never stored: only a salt
is kept.
"""

import base64
import hashlib
import hmac
import secrets

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.selectors import get_acting_user
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict
from sessions_app.models import CallbackSecret

PREFIX = "berthcb_"


def callback_secret(actor: Actor) -> CallbackSecret | None:
    """Return the actor's secret record (with its creation time), or None."""
    return CallbackSecret.objects.filter(user_id=actor.user_id or 0).first()


@transaction.atomic
def make_callback_secret(*, actor: Actor) -> str:
    """Create a new secret and return its text, which is shown only here. It signs all future
    callbacks of the actor, including those of running sessions.
    """
    row, _is_new = CallbackSecret.objects.update_or_create(
        user=get_acting_user(actor), defaults={"salt": secrets.token_hex(32), "made_at": clock.now()}
    )
    audit_log.record(actor=actor, action="sessions.make_callback_secret", target=row)
    return secret_text(row.salt)


def check_callback_secret(actor: Actor) -> None:
    """Raise Conflict if the actor has no secret, because receivers could not verify the sender."""
    if callback_secret(actor) is None:
        raise Conflict(
            _("Callbacks are signed, and you have no callback secret yet."),
            hint=_("Create one first: Settings → Callbacks, or “berth callback new-secret”."),
            code="no_callback_secret",
            fields={
                "callback_url": [_("You have no callback secret yet. Create one in Settings → Callbacks.")]
            },
        )


def secret_text(salt: str) -> str:
    key = f"callbacks:{settings.SECRET_KEY}".encode()
    return PREFIX + base64.urlsafe_b64encode(
        hmac.new(key, salt.encode(), hashlib.sha256).digest()
    ).decode().rstrip("=")
