"""Callbacks: deliveries of session events to a user's URL, and the secret that signs them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from berth.addresses import segment
from berth.decoding import Record
from berth.paging import Endpoint, iterate


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Record):
    """One delivery of an event. `answer` is the HTTP status; if None, `fault` gives the reason."""

    id: str
    event: str = ""
    state: str = ""
    attempts: int = 0
    answer: int | None = None
    fault: str = ""
    happened_at: datetime | None = None
    tried_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackSecret(Record):
    """Signing secret. `secret` is set only in the answer that creates it."""

    made_at: datetime | None = None
    secret: str = ""


class Callbacks(Endpoint):
    """Callback deliveries and the signing secret, as `client.callbacks`."""

    def list(self, session_id: str) -> Iterator[Delivery]:
        """Yield the callback deliveries of a session, oldest first."""
        return iterate(self._transport, f"sessions/{segment(session_id)}/callbacks/", Delivery)

    def secret(self) -> CallbackSecret:
        """Return when the user's signing secret was created, without its text. Raises NotFound."""
        return self._get(CallbackSecret, "callback-secret/")

    def new_secret(self) -> CallbackSecret:
        """Create a signing secret, which replaces the present one for all callbacks of the user."""
        return self._send(CallbackSecret, "POST", "callback-secret/", is_new=True)
