"""Profile page of the secret that signs callbacks."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from common.pages.htmx import closed_during_impersonation
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once
from sessions_app.callbacks.signing_secret import callback_secret, make_callback_secret

EXAMPLE = """\
import hashlib, hmac, time

def is_from_berth(secret: str, headers, body: bytes) -> bool:
    told, sent = headers["Berth-Timestamp"], headers["Berth-Signature"]
    text = told.encode() + b"." + body
    made = hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
    is_fresh = abs(time.time() - int(told)) < 300
    return is_fresh and hmac.compare_digest(sent, f"v1={made}")
"""


@closed_during_impersonation
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="callbacks")
def callbacks_page(request: HttpRequest) -> HttpResponse:
    """Show the page; POST creates a new secret and shows it once."""
    actor = actor_of(request)
    text = make_callback_secret(actor=actor) if request.method == "POST" else ""
    context = {"kept": callback_secret(actor), "secret": text, "example": EXAMPLE}
    return render(request, "sessions_app/callbacks.html", context, status=201 if text else 200)
