"""Deliver signed webhooks ("callbacks") about status changes of sessions.

Session transitions are the outbox: they are written with the change, so no event is lost when a
process dies. One worker at a time creates deliveries for new transitions, sends those that are due
and stores the result. After a crash a delivery may be sent again under the same id. Deliveries of
one session are sent in order.
"""

import json
import math
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection
from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import RowNumber
from django.urls import reverse
from django.utils.translation import gettext as _

from common import clock
from common.actors import Actor
from common.clock import ClockJump
from common.db.advisory_locks import try_exclusive
from common.errors import InvalidInput
from sessions_app.callbacks.http_post import Answer, post
from sessions_app.callbacks.signing_secret import check_callback_secret, secret_text
from sessions_app.core.callbacks import (
    TRIED_FOR,
    CallbackEvent,
    CallbackNetworks,
    Fault,
    event_for,
    is_callable,
    parse_target,
    retry_delay,
    session_outcome,
    signature,
)
from sessions_app.core.states import TERMINAL, Status
from sessions_app.models import CallbackDelivery, ComputeSession, SessionCallback, SessionTransition

log = structlog.get_logger(__name__)

MAX_PARALLEL, MAX_PARALLEL_PER_DOMAIN, MAX_PARALLEL_PER_HOST = 16, 8, 2
MAX_NEW_PER_DOMAIN = 1000
WORK_S = 30
CREATE_EVERY_S = 5
MINUTE = timedelta(minutes=1)
_WAITING = CallbackDelivery.State.WAITING.value
_DELIVERED = CallbackDelivery.State.DELIVERED.value
_GIVEN_UP = CallbackDelivery.State.GIVEN_UP.value
# First waiting delivery of each session, if it is due and not being sent (a request may take longer
# than its retry delay). Domains alternate, each up to its limit of concurrent requests, so that one
# domain's backlog does not delay the others.
_DUE = """
    WITH first AS (
        SELECT DISTINCT ON (callback_id) id, callback_id, due_at FROM sessions_app_callbackdelivery
        WHERE state = 'waiting' ORDER BY callback_id, transition_id
    ), due AS (
        SELECT first.id, first.due_at, callback.host, session.domain_id,
            row_number() OVER (PARTITION BY session.domain_id, callback.host ORDER BY first.due_at, first.id) AS of_host
        FROM first
        JOIN sessions_app_sessioncallback callback ON callback.session_id = first.callback_id
        JOIN sessions_app_computesession session ON session.id = first.callback_id
        WHERE first.due_at <= %(now)s AND NOT first.callback_id = ANY(%(on_their_way)s)
            AND NOT callback.host = ANY(%(full_hosts)s) AND NOT session.domain_id = ANY(%(full_domains)s)
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY domain_id ORDER BY due_at, id) AS of_domain
        FROM due WHERE of_host <= %(to_one_host)s
    )
    SELECT id, host, domain_id FROM ranked WHERE of_domain <= %(of_one_domain)s ORDER BY of_domain, due_at, id
"""
_REPORTED = Q(to_status__in=[Status.RUNNING, *TERMINAL]) | Q(to_status=Status.PENDING) & ~Q(from_status="")


def check_callback(actor: Actor, url: str) -> None:
    """Check that callbacks to `url` can be sent. Raises InvalidInput for a forbidden address,
    Conflict if the actor has no signing secret.
    """
    if not url:
        return
    target = parse_target(url)
    if target.address is not None and not is_callable(target.address, _allowed_networks()):
        sentence = _("{host} is not called: it is in no network that callbacks may reach.").format(
            host=target.host
        )
        hint = _("Name another one, or ask an administrator of the installation to allow its network.")
        raise InvalidInput(sentence, hint=hint, fields={"callback_url": [sentence]})
    check_callback_secret(actor)


def insert_callbacks(sessions: Iterable[ComputeSession], url: str) -> None:
    """Insert the callback address of these new sessions; does nothing if `url` is empty."""
    if url:
        host = parse_target(url).host
        SessionCallback.objects.bulk_create(
            SessionCallback(session=session, url=url, host=host) for session in sessions
        )


def find_callback_url(actor: Actor, session: ComputeSession) -> str:
    """Return the callback URL to the session's owner, "" to anybody else and under impersonation:
    the URL may contain a secret.
    """
    if session.owner_id != actor.user_id or actor.impersonator_id is not None:
        return ""
    its = getattr(session, "callback", None)
    return its.url if its is not None else ""


def list_deliveries(session: ComputeSession) -> QuerySet[CallbackDelivery]:
    """Return the session's deliveries, sent and waiting, oldest first."""
    theirs = CallbackDelivery.objects.filter(callback=session.pk)
    return theirs.order_by("transition_id").select_related("transition")


def shift_timestamps(step: ClockJump) -> None:
    """Shift timestamps after a clock jump: waiting deliveries keep their remaining time until due
    and until given up, and the rate limit keeps its minute. Rows written since use the new clock.
    """
    was = step.now - step.by
    is_new = step.is_since("made_at") | step.is_since("tried_at")
    waiting = CallbackDelivery.objects.filter(state=_WAITING).exclude(is_new)
    waiting.update(made_at=F("made_at") + step.by, due_at=F("due_at") + step.by)
    lately = CallbackDelivery.objects.filter(
        tried_at__gt=was - step.unseen - MINUTE, tried_at__lte=was + MINUTE
    )
    lately.exclude(step.is_since("tried_at")).update(tried_at=F("tried_at") + step.by)


def deliver_callbacks() -> None:
    """Send due deliveries for at most WORK_S. Safe to run twice, late or concurrently."""
    with try_exclusive("tell-callbacks") as is_mine:
        if is_mine:
            _send_due(until=time.monotonic() + WORK_S)


def _create_deliveries() -> None:
    """Create deliveries for transitions that need one: the oldest MAX_NEW_PER_DOMAIN per domain,
    so that one backlog does not block other domains.
    """
    of_domain = Window(RowNumber(), partition_by="session__domain_id", order_by="pk")
    lines = SessionTransition.objects.filter(_REPORTED, session__callback__is_open=True, delivery=None)
    oldest = lines.alias(of_domain=of_domain).filter(of_domain__lte=MAX_NEW_PER_DOMAIN).values("pk")
    rows = []
    for line in SessionTransition.objects.filter(pk__in=oldest).order_by("pk"):
        news = event_for(line.from_status, line.to_status)
        if news is not None:
            number = uuid.uuid5(line.session_id, str(line.pk))
            rows.append(
                CallbackDelivery(id=number, callback_id=line.session_id, transition=line, news=news.value)
            )
    CallbackDelivery.objects.bulk_create(rows, ignore_conflicts=True)


def _send_due(*, until: float) -> None:
    """Send due deliveries until the deadline, refilling free workers at once, so that a slow
    receiver delays only its own deliveries.
    """
    in_flight: dict[Future[Answer], CallbackDelivery] = {}
    noted_at = -math.inf
    with ThreadPoolExecutor(MAX_PARALLEL) as pool:
        while True:
            if (now := time.monotonic()) < until:
                # New transitions do not wait until all present deliveries are sent.
                if now - noted_at >= CREATE_EVERY_S:
                    _create_deliveries()
                    noted_at = time.monotonic()
                batch = _next_batch(list(in_flight.values()))
                _put_off(batch)
                in_flight |= {pool.submit(_send, _build_message(each)): each for each in batch}
            if not in_flight:
                return
            for future in wait(in_flight, return_when=FIRST_COMPLETED).done:
                _settle(in_flight.pop(future), future.result())


def _next_batch(in_flight: Sequence[CallbackDelivery] = ()) -> list[CallbackDelivery]:
    """Return deliveries to send beside those in flight, within the limits per host and domain and
    the domain's limit per minute.
    """
    to_host = Counter(each.callback.host for each in in_flight)
    of_domain = Counter(each.callback.session.domain_id for each in in_flight)
    now = clock.now()
    recent = CallbackDelivery.objects.filter(tried_at__gt=now - MINUTE, tried_at__lte=now)
    lately = Counter(recent.values_list("callback__session__domain_id", flat=True))

    def is_full(domain_id: int) -> bool:
        is_over = lately[domain_id] >= settings.BERTH_CALLBACKS_PER_MINUTE
        return is_over or of_domain[domain_id] >= MAX_PARALLEL_PER_DOMAIN

    bounds: dict[str, Any] = {
        "now": now,
        "on_their_way": [each.callback_id for each in in_flight],
        "full_hosts": [host for host, count in to_host.items() if count >= MAX_PARALLEL_PER_HOST],
        "full_domains": [each for each in {*lately, *of_domain} if is_full(each)],
        "to_one_host": MAX_PARALLEL_PER_HOST,
        "of_one_domain": MAX_PARALLEL_PER_DOMAIN,
    }
    with connection.cursor() as cursor:
        cursor.execute(_DUE, bounds)
        rows = cursor.fetchall()
    chosen: list[UUID] = []
    for number, host, domain_id in rows:
        if len(in_flight) + len(chosen) == MAX_PARALLEL:
            break
        if to_host[host] < MAX_PARALLEL_PER_HOST and not is_full(domain_id):
            to_host[host] += 1
            of_domain[domain_id] += 1
            lately[domain_id] += 1
            chosen.append(number)
    related = ("callback__session__owner__callback_secret", "callback__session__project", "transition")
    found = CallbackDelivery.objects.select_related(*related).in_bulk(chosen)
    return [found[number] for number in chosen if number in found]


def _put_off(batch: Sequence[CallbackDelivery]) -> None:
    """Schedule the next attempt before sending, in case this process dies."""
    now = clock.now()
    for delivery in batch:
        delivery.attempts += 1
        delivery.tried_at, delivery.due_at = now, now + retry_delay(delivery.attempts)
    CallbackDelivery.objects.bulk_update(batch, ["attempts", "tried_at", "due_at"])


def _build_message(delivery: CallbackDelivery) -> tuple[str, bytes, dict[str, str]] | None:
    """Return (URL, body, headers), or None if the owner's account is closed or has no secret."""
    owner = delivery.callback.session.owner
    secret = getattr(owner, "callback_secret", None)
    if not owner.is_active or secret is None:
        return None
    body = json.dumps(event_body(delivery)).encode()
    timestamp = int(clock.now().timestamp())
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Berth-Callback/1",
        "Berth-Delivery": str(delivery.pk),
        "Berth-Event": delivery.news,
        "Berth-Timestamp": str(timestamp),
        "Berth-Signature": f"v1={signature(secret_text(secret.salt), timestamp, body)}",
    }
    return delivery.callback.url, body, headers


def event_body(delivery: CallbackDelivery) -> dict[str, object]:
    """Return the JSON body of a delivery; the session's status is that of its transition."""
    session, line = delivery.callback.session, delivery.transition
    is_end = delivery.news == CallbackEvent.ENDED
    return {
        "id": str(delivery.pk),
        "event": delivery.news,
        "happened_at": line.happened_at.isoformat(),
        "session": {
            "id": str(session.pk),
            "name": session.name,
            "type": session.type,
            "project": session.project.name,
            "status": line.to_status,
            "reason": line.reason,
            "outcome": session_outcome(line.to_status, line.reason).value if is_end else None,
            "exit_code": session.exit_code if is_end else None,
            "url": settings.BERTH_URL + reverse("session-detail", args=[session.pk]),
        },
    }


def _allowed_networks() -> CallbackNetworks:
    return CallbackNetworks(settings.BERTH_CALLBACK_NETWORKS, settings.BERTH_CALLBACK_FORBIDDEN_NETWORKS)


def _send(message: tuple[str, bytes, dict[str, str]] | None) -> Answer:
    """Send one request. Runs in worker threads without database access."""
    if message is None:
        return Answer(fault=Fault.CLOSED)
    url, body, headers = message
    return post(parse_target(url), body, headers, _allowed_networks())


def _settle(delivery: CallbackDelivery, answer: Answer) -> None:
    delivery.answer, delivery.fault = answer.status, answer.fault.value
    if answer.is_good:
        delivery.state = _DELIVERED
    elif answer.fault is Fault.CLOSED or clock.now() - delivery.made_at >= TRIED_FOR:
        delivery.state = _GIVEN_UP
    changes = {"answer": delivery.answer, "fault": delivery.fault, "state": delivery.state}
    # The row may be deleted with its session, and a finished delivery is never changed.
    CallbackDelivery.objects.filter(pk=delivery.pk, state=_WAITING).update(**changes)
    log.info(
        "callback.tried",
        session_id=str(delivery.callback_id),
        news=delivery.news,
        host=delivery.callback.host,
        attempts=delivery.attempts,
        answer=answer.status,
        fault=answer.fault.value,
        state=delivery.state,
    )
    if delivery.state != _WAITING and delivery.news == CallbackEvent.ENDED:
        SessionCallback.objects.filter(pk=delivery.callback_id).update(is_open=False)
