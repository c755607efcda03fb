"""Concurrent-login limit: a further sign-in ends the user's oldest login, and its browser shows the
reason.
"""

import re
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.utils.translation import ngettext

from accounts.core.limits import Limit, tightest_value
from accounts.core.token_secrets import hash_secret
from accounts.limits import user_scopes
from accounts.logins.service import live_browser_logins
from accounts.models import BrowserLogin, EndedLogin, User
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.http.user_agent import device_name

COOKIE = "berth_ended"
COOKIE_AGE_S = 24 * 3600
_NAME = re.compile(r"[0-9a-f]{64}")


def login_limit(user: User) -> int | None:
    """Return the smaller limit of user and domain; None means unlimited. One query."""
    return tightest_value(user_scopes(user), Limit.BROWSERS)


def end_oldest_logins(*, actor: Actor, user: User, session: Any) -> None:
    """Save the new login `session` of `user` and end the oldest others beyond the limit. Concurrent
    sign-ins of one user are serialised by a row lock. One query without a limit.
    """
    most = login_limit(user)
    if most is None:
        return
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        session.save()
        others = live_browser_logins(user.pk).exclude(pk=session.session_key)
        ended = list(others.order_by(F("signed_in_at").desc(nulls_last=True), "pk")[most - 1 :])
        if not ended:
            return

        EndedLogin.objects.bulk_create(
            [EndedLogin(key_hash=hash_secret(row.pk), allowed=most) for row in ended]
        )
        BrowserLogin.objects.filter(pk__in=[row.pk for row in ended]).delete()
        records = [
            (user, {"ip": row.ip, "device": device_name(row.user_agent), "allowed": most}) for row in ended
        ]
        audit_log.record_many(actor=actor, action="accounts.end_oldest_logins", targets=records)


def set_reason_cookie(request: HttpRequest, response: HttpResponse) -> None:
    """Set a cookie in a browser whose login was ended by the limit, so that it can show the reason
    until the next sign-in; this response drops the login's own cookie. One query for a browser with
    an ended login, else none.
    """
    if COOKIE in request.COOKIES and request.user.is_authenticated:
        response.delete_cookie(COOKIE, samesite="Lax")
        return
    name = _login_key_hash(request)
    if name and request.session.is_empty() and EndedLogin.objects.filter(pk=name).exists():
        response.set_cookie(
            COOKIE, name, max_age=COOKIE_AGE_S, secure=settings.IS_HTTPS, httponly=True, samesite="Lax"
        )


def end_reason(request: HttpRequest) -> str:
    """Return the sentence for the sign-in page of a browser whose login was ended by the limit;
    else "". At most one query.
    """
    names = {_login_key_hash(request), request.COOKIES.get(COOKIE, "")}
    names = {name for name in names if _NAME.fullmatch(name)}
    ended = EndedLogin.objects.filter(pk__in=names).order_by("-ended_at").first() if names else None
    if ended is None or request.user.is_authenticated:
        return ""
    return ngettext(
        "You signed in elsewhere; your policy allows {count} browser at once. Signing in here signs the other one out.",
        "You signed in elsewhere; your policy allows {count} browsers at once. Signing in here signs the oldest out.",
        ended.allowed,
    ).format(count=ended.allowed)


def purge_ended_logins() -> None:
    """Delete ended logins that are older than the login cookie's lifetime."""
    lasted = timedelta(seconds=settings.SESSION_COOKIE_AGE)
    EndedLogin.objects.filter(ended_at__lt=clock.now() - lasted).delete()


def _login_key_hash(request: HttpRequest) -> str:
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
    return hash_secret(key) if key else ""
