"""Callbacks: a session tells an address of its owner how it goes, by POST, signed.

What is to be told are lines of its history, which are written with the changes: no process that dies loses one. One worker at a
time finds lines that are not on their way yet, sends those that are due, and writes down what came of it; who dies in between
tells it again, under the same id. Lines of one session go one after another.
"""

import json
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import structlog
from django.conf import settings
from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from common import clock
from common.actors import Actor
from common.errors import InvalidInput
from common.locks import try_exclusive
from sessions_app.callback_rules import (
    TRIED_FOR,
    Fault,
    News,
    may_be_called,
    news_of,
    outcome_of_end,
    signature,
    target_of,
    wait_after,
)
from sessions_app.callback_secrets import demand_callback_secret, secret_text
from sessions_app.callback_sending import Answer, post
from sessions_app.models import CallbackDelivery, ComputeSession, SessionCallback, SessionTransition
from sessions_app.states import TERMINAL, Status

log = structlog.get_logger(__name__)

AT_ONCE, AT_ONCE_TO_ONE_HOST = 16, 2
LOOKED_AT = 1000
WORK_S = 30
MINUTE = timedelta(minutes=1)
_WAITING = CallbackDelivery.State.WAITING.value
_DELIVERED = CallbackDelivery.State.DELIVERED.value
_GIVEN_UP = CallbackDelivery.State.GIVEN_UP.value
_TOLD = Q(to_status__in=[Status.RUNNING, *TERMINAL]) | Q(to_status=Status.PENDING) & ~Q(from_status="")


def demand_callback(actor: Actor, url: str) -> None:
    """Raises InvalidInput for an address that is never called, Conflict for somebody without a secret to sign with."""
    if not url:
        return
    target = target_of(url)
    if target.address is not None and not may_be_called(target.address, settings.BERTH_CALLBACK_NETWORKS):
        sentence = _("{host} is not called: it is no address in the open internet.").format(host=target.host)
        hint = _("Name another one, or ask an administrator of the installation to allow its network.")
        raise InvalidInput(sentence, hint=hint, fields={"callback_url": [sentence]})
    demand_callback_secret(actor)


def keep_callback(session: ComputeSession, url: str) -> None:
    """Where `session` tells how it goes; nothing where no address is named."""
    if url:
        SessionCallback.objects.create(session=session, url=url)


def callback_url_of(actor: Actor, session: ComputeSession) -> str:
    """For its owner alone: such an address may hold a secret."""
    if session.owner_id != actor.user_id or actor.behind_id is not None:
        return ""
    its = getattr(session, "callback", None)
    return its.url if its is not None else ""


def deliveries_of(session: ComputeSession) -> QuerySet[CallbackDelivery]:
    """What was told, or is on its way, oldest first."""
    theirs = CallbackDelivery.objects.filter(callback=session.pk)
    return theirs.order_by("transition_id").select_related("transition")


def tell_callbacks() -> None:
    """Tell what is due, for at most WORK_S. May run at any time, twice or late."""
    with try_exclusive("tell-callbacks") as is_mine:
        if is_mine:
            _note_news()
            _tell_due(until=time.monotonic() + WORK_S)


def _note_news() -> None:
    """A delivery for each line of history that is to be told and has none."""
    lines = SessionTransition.objects.filter(_TOLD, session__callback__is_open=True, delivery=None)
    rows = []
    for line in lines.order_by("pk")[:LOOKED_AT]:
        news = news_of(line.from_status, line.to_status)
        if news is not None:
            number = uuid.uuid5(line.session_id, str(line.pk))
            rows.append(
                CallbackDelivery(id=number, callback_id=line.session_id, transition=line, news=news.value)
            )
    CallbackDelivery.objects.bulk_create(rows, ignore_conflicts=True)


def _tell_due(*, until: float) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while time.monotonic() < until:
            batch = _next_batch()
            if not batch:
                return
            _put_off(batch)
            letters = [_letter(each) for each in batch]
            for delivery, answer in zip(batch, pool.map(_send, letters), strict=True):
                _settle(delivery, answer)


def _next_batch() -> list[CallbackDelivery]:
    """The first that waits of each session, where it is due: few to one machine, and of one domain as many as it may have in a
    minute."""
    waiting = CallbackDelivery.objects.filter(state=_WAITING)
    first = waiting.order_by("callback_id", "transition_id").distinct("callback_id")
    due = CallbackDelivery.objects.filter(pk__in=first.values("pk"), due_at__lte=clock.now())
    related = ("callback__session__owner__callback_secret", "callback__session__project", "transition")
    told = CallbackDelivery.objects.filter(tried_at__gt=clock.now() - MINUTE)
    by_domain = Counter(told.values_list("callback__session__domain_id", flat=True))
    by_host: Counter[str] = Counter()
    batch: list[CallbackDelivery] = []
    for delivery in due.select_related(*related).order_by("due_at", "pk")[:LOOKED_AT]:
        host, domain_id = target_of(delivery.callback.url).host, delivery.callback.session.domain_id
        is_full = by_host[host] >= AT_ONCE_TO_ONE_HOST
        if is_full or by_domain[domain_id] >= settings.BERTH_CALLBACKS_PER_MINUTE:
            continue
        by_host[host] += 1
        by_domain[domain_id] += 1
        batch.append(delivery)
        if len(batch) == AT_ONCE:
            break
    return batch


def _put_off(batch: Sequence[CallbackDelivery]) -> None:
    """Have them wait before anything can go wrong with them."""
    now = clock.now()
    for delivery in batch:
        delivery.attempts += 1
        delivery.tried_at, delivery.due_at = now, now + wait_after(delivery.attempts)
    CallbackDelivery.objects.bulk_update(batch, ["attempts", "tried_at", "due_at"])


def _letter(delivery: CallbackDelivery) -> tuple[str, bytes, dict[str, str]] | None:
    """Address, body and headers; None where its owner's account is closed, or has no secret any more."""
    owner = delivery.callback.session.owner
    secret = getattr(owner, "callback_secret", None)
    if not owner.is_active or secret is None:
        return None
    body = json.dumps(news_body(delivery)).encode()
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


def news_body(delivery: CallbackDelivery) -> dict[str, object]:
    """What is told. The session is as it was after that change."""
    session, line = delivery.callback.session, delivery.transition
    is_end = delivery.news == News.ENDED
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
            "outcome": outcome_of_end(line.to_status, line.reason).value if is_end else None,
            "exit_code": session.exit_code if is_end else None,
            "url": settings.BERTH_URL + reverse("session-detail", args=[session.pk]),
        },
    }


def _send(letter: tuple[str, bytes, dict[str, str]] | None) -> Answer:
    """No database here: it runs in threads of its own."""
    if letter is None:
        return Answer(fault=Fault.CLOSED)
    url, body, headers = letter
    return post(target_of(url), body, headers, settings.BERTH_CALLBACK_NETWORKS)


def _settle(delivery: CallbackDelivery, answer: Answer) -> None:
    delivery.answer, delivery.fault = answer.status, answer.fault.value
    if answer.is_good:
        delivery.state = _DELIVERED
    elif answer.fault is Fault.CLOSED or clock.now() - delivery.made_at >= TRIED_FOR:
        delivery.state = _GIVEN_UP
    delivery.save(update_fields=["answer", "fault", "state"])
    host = target_of(delivery.callback.url).host
    log.info(
        "callback.tried",
        session_id=str(delivery.callback_id),
        news=delivery.news,
        host=host,
        attempts=delivery.attempts,
        answer=answer.status,
        fault=answer.fault.value,
        state=delivery.state,
    )
    if delivery.state != _WAITING and delivery.news == News.ENDED:
        SessionCallback.objects.filter(pk=delivery.callback_id).update(is_open=False)
