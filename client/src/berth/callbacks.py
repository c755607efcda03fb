"""Callbacks: what sessions told an address of yours, and what that is signed with."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from berth.addresses import segment
from berth.decoding import Record, decode
from berth.paging import iterate
from berth.transport import Transport, json_of, new_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Record):
    """One message. `answer`: the status of HTTP; without one, `fault` says why."""

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
    """`secret` is there once, after it was made."""

    made_at: datetime | None = None
    secret: str = ""


class Callbacks:
    """`client.callbacks`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, session_id: str) -> Iterator[Delivery]:
        """What the callback of a session was told, oldest first."""
        return iterate(self._transport, f"sessions/{segment(session_id)}/callbacks/", Delivery)

    def secret(self) -> CallbackSecret:
        """Since when you have one. Raises NotFound."""
        return decode(CallbackSecret, self._transport.get_json("callback-secret/"))

    def new_secret(self) -> CallbackSecret:
        """Another one, which signs all your callbacks from now on."""
        return decode(
            CallbackSecret, json_of(self._transport.request("POST", "callback-secret/", headers=new_key()))
        )
