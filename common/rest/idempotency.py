"""Idempotency (ADR 17): a repeated request creates one object. `Idempotency-Key` over REST, `{%
once %}` in forms.

The response is stored in the transaction of the change. A crash leaves either both or
neither; a refusal stores nothing and is evaluated again. A concurrent request with the same
key waits for the first.
"""

import hashlib
import json
import re
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from common import clock
from common.actors import Actor
from common.db.advisory_locks import LockTimeout, lock_exclusive
from common.errors import BerthError, Conflict, InvalidInput
from common.models import KeptAnswer
from common.rest.actor import actor_of

HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
FORM_FIELD = "once"
LIFETIME = timedelta(hours=24)
WAIT_S = 10
MADE = frozenset({201, 202, 302, 303})
_KEY = re.compile(r"[\x21-\x7e]{1,255}\Z")
_FORM_TOKEN = re.compile(r"[0-9a-f]{32}\Z")


class KeyUsedOtherwise(BerthError):
    """The key was used before with a different request."""

    default_code = "idempotency_key_used"
    http_status = 422


class StillAnswering(Conflict):
    """The first request with this key is still in progress."""

    default_code = "still_answering"


class AnswerNotKept(Conflict):
    """The request was done, but its response contains a secret and is not stored."""

    default_code = "answer_not_kept"


def takes_idempotency_key(post: Callable[..., Response]) -> Callable[..., Response]:
    """Decorate the `post` of a REST view that creates something. With the header, the same body
    from the same user creates once and gets the first response again; another body is refused.
    Raises KeyUsedOtherwise, StillAnswering, AnswerNotKept.
    """

    @wraps(post)
    def once(view: Any, request: Request, *arguments: Any, **named: Any) -> Response:
        key = request.headers.get(HEADER)
        if key is None:
            return post(view, request, *arguments, **named)
        if not _KEY.match(key):
            raise InvalidInput(
                _("{header} is not 1 to 255 printable ASCII characters.").format(header=HEADER),
                hint=_("A random UUID for each thing that is to be created serves well."),
            )
        with transaction.atomic():
            kept = _kept_answer(actor_of(request), f"key:{key}", _hash_of(request.path, request.data))
            if kept.status:
                return _repeated(kept)
            response = post(view, request, *arguments, **named)
            _keep(kept, response, JSONRenderer().render(response.data).decode())
            return response

    once.takes_idempotency_key = True  # type: ignore[attr-defined]  # shown by common.rest.openapi
    return once


def submit_once(*, otherwise: str) -> Callable[..., Callable[..., HttpResponse]]:
    """Decorate a page whose form has `{% once %}`: sent again (a second click, a reload), it
    creates nothing and redirects like the first; to the address named `otherwise` if that was a
    page with a secret.
    """

    def decorator(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        @wraps(view)
        def once(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
            token = request.POST.get(FORM_FIELD, "") if request.method == "POST" else ""
            if not _FORM_TOKEN.match(token):
                return view(request, *arguments, **named)
            typed = {name: request.POST.getlist(name) for name in request.POST if not name.startswith("csrf")}
            request_hash = _hash_of(request.path, typed)
            with transaction.atomic():
                # A form changed after going back has the same token, but counts as another.
                kept = _kept_answer(actor_of(request), f"form:{token}:{request_hash}", request_hash)
                if kept.status:
                    return redirect(kept.location or otherwise)
                response = view(request, *arguments, **named)
                _keep(kept, response, "")
                return response

        return once

    return decorator


def purge_answers() -> int:
    """Delete expired responses; return their number."""
    return KeptAnswer.objects.filter(created_at__lt=clock.now() - LIFETIME).delete()[0]


def _kept_answer(actor: Actor, key: str, request_hash: str) -> KeptAnswer:
    """Return the stored response to this key, or a new unsaved row without status. Other requests
    with this key wait until the transaction ends. Raises KeyUsedOtherwise, StillAnswering.
    """
    key_hash, actor_id = hashlib.sha256(key.encode()).hexdigest(), actor.user_id or 0
    try:
        lock_exclusive(f"answer:{actor_id}:{key_hash}", wait_s=WAIT_S)
    except LockTimeout as error:
        raise StillAnswering(
            _("The first request with this key is still being worked on."),
            hint=_("Send it again in some seconds."),
        ) from error
    kept = KeptAnswer.objects.filter(actor_id=actor_id, key_hash=key_hash).first()
    if kept is None or kept.created_at < clock.now() - LIFETIME:
        return KeptAnswer(
            pk=kept.pk if kept else None, actor_id=actor_id, key_hash=key_hash, request_hash=request_hash
        )
    if kept.request_hash != request_hash:
        raise KeyUsedOtherwise(
            _("This {header} came before with another request.").format(header=HEADER),
            hint=_("Use a new key for each thing that is to be created."),
        )
    return kept


def _keep(kept: KeptAnswer, response: HttpResponse, body: str) -> None:
    """Save the response if it created something; without its body if that may not be stored."""
    if response.status_code not in MADE:
        return
    kept.status = response.status_code
    kept.location = response.get("Location", "")
    kept.body = "" if "no-store" in response.get("Cache-Control", "") else body
    kept.created_at = clock.now()
    kept.save()


def _repeated(kept: KeptAnswer) -> Response:
    if not kept.body:
        raise AnswerNotKept(
            _("This was done already. Its answer held a secret, which is shown once and kept nowhere."),
            hint=_("If the secret was lost, delete what was created, and create another with a new key."),
        )
    return Response(json.loads(kept.body), status=kept.status, headers={REPLAYED_HEADER: "true"})


def _hash_of(path: str, body: Any) -> str:
    """Return a keyed hash of the request, independent of field order and white space."""
    content = json.dumps([path, body], sort_keys=True)
    return salted_hmac(
        "common.rest.idempotency", content, algorithm="sha256"
    ).hexdigest()  # keyed, as the body may contain a password
