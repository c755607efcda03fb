"""Live updates for open pages: a bounded Redis stream that the event endpoint follows and replays.

Updates carry ids, never contents: a page fetches the change with its own permissions. Losing one is
harmless; pages reload when they reconnect.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import redis
import structlog
from django.conf import settings
from django.db import transaction

from common.messaging.redis import check_redis, client
from common.resilience.circuit_breaker import Outage

log = structlog.get_logger(__name__)
STREAM_LENGTH = 5000
UPDATES_PER_MESSAGE = 250
CLOCK_TOLERANCE = timedelta(milliseconds=250)


@dataclass(frozen=True, slots=True)
class Audience:
    """Recipients: owner, admins of project and domain, superadmins, monitors; None: everybody."""

    owner_id: int | None = None
    project_id: int | None = None
    domain_id: int | None = None

    def to_json(self) -> dict[str, int | None]:
        return {"owner_id": self.owner_id, "project_id": self.project_id, "domain_id": self.domain_id}


@dataclass(frozen=True, slots=True)
class Listener:
    """Permissions of one recipient."""

    user_id: int
    receives_all: bool
    admin_project_ids: frozenset[int]
    overseen_domain_id: int | None

    def receives(self, audience: Audience) -> bool:
        if self.receives_all or audience == Audience():
            return True
        return (
            audience.owner_id == self.user_id
            or (audience.project_id is not None and audience.project_id in self.admin_project_ids)
            or (audience.domain_id is not None and audience.domain_id == self.overseen_domain_id)
        )


def stream_name() -> str:
    return f"berth:push:{settings.BERTH_INSTALLATION}"


def id_at(instant: datetime) -> str:
    """Return the stream id from which a replay includes all updates after `instant`. Redis assigns
    ids by its own clock, so a tolerance is subtracted.
    """
    return f"{int((instant - CLOCK_TOLERANCE).timestamp() * 1000)}-0"


def push_on_commit(kind: str, *, audience: Audience, payload: dict[str, Any]) -> None:
    """Publish, after commit, that something of `kind` ("session-changed") happened."""
    fields = {"kind": kind, "audience": json.dumps(audience.to_json()), "payload": json.dumps(payload)}
    transaction.on_commit(lambda: _send(fields))


def push_many_on_commit(kind: str, told: Sequence[tuple[Audience, dict[str, Any]]]) -> None:
    """Publish, after commit, many updates of one kind, each with audience and payload. Up to
    UPDATES_PER_MESSAGE per stream message.
    """
    for first in range(0, len(told), UPDATES_PER_MESSAGE):
        part = told[first : first + UPDATES_PER_MESSAGE]
        many = [
            [audience.owner_id, audience.project_id, audience.domain_id, payload]
            for audience, payload in part
        ]
        fields = {"kind": kind, "many": json.dumps(many)}
        transaction.on_commit(partial(_send, fields))


def push_now(kind: str, *, audience: Audience, payload: dict[str, Any]) -> None:
    """Publish an update immediately, without a transaction (progress of an image pull)."""
    _send({"kind": kind, "audience": json.dumps(audience.to_json()), "payload": json.dumps(payload)})


def _send(fields: dict[str, str]) -> None:
    try:
        check_redis()
        client().xadd(stream_name(), fields, maxlen=STREAM_LENGTH, approximate=True)  # type: ignore[arg-type]
    except (redis.RedisError, Outage) as error:
        log.warning("push.lost", kind=fields["kind"], error=str(error))
