"""Somebody whom a provider brought shows that the account here is theirs: they sign in once as they did until now.

What waits for that stands in the browser's session, which survives the sign-in.
"""

from typing import Any

from accounts.federation import Claim, link_proved
from accounts.models import User
from common import clock
from common.actors import Actor

WAITING = "link_waits"
WAITS_S = 600


def wait_for_proof(request: Any, provider_id: str, claim: Claim) -> None:
    request.session[WAITING] = {
        "provider_id": provider_id,
        "subject": claim.subject,
        "email": claim.email.strip().lower(),
        "until": clock.now().timestamp() + WAITS_S,
    }


def accept_proof(request: Any, *, actor: Actor, user: User) -> None:
    """`user` is signed in: connect them to whoever waits in this browser, if that is them."""
    waiting = request.session.pop(WAITING, None)
    if waiting is not None and waiting.pop("until") > clock.now().timestamp():
        link_proved(actor=actor, user=user, **waiting)
