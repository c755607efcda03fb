"""Counts attempts of passwords, codes and reset mails before they are verified, and rejects those
over the limit.

Counts are in the database, which a sign-in needs anyway, so none is lost without Redis; one
statement counts and compares, so none is lost in a race. `accounts.core.throttle` defines the
limits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import F
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.core.roles import Role
from accounts.core.throttle import RATES, AttemptLimit, Purpose, Rate, attempt_keys
from accounts.events import PasswordGuessingDetected
from accounts.logins.trusted_devices import attempt_origin
from accounts.models import AttemptCount, User
from accounts.sign_in.audit_events import ASK_RESET, SIGN_IN
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import TooManyRequests
from common.messaging.events import publish
from common.rest.actor import actor_of

REASON = "too_many_attempts"
GUESSING_NOTICE_RATE = Rate(1, timedelta(days=1))
MINUTE_S = 60
# Audit actions of refusals other than sign-ins.
ACTIONS = {
    Purpose.RESET: ASK_RESET,
    Purpose.SIGN_UP: "accounts.ask_to_sign_up",
    Purpose.JOIN: "accounts.accept_invitation",
    Purpose.LINK: "vfolders.use_link",
    Purpose.TOKEN: "requests.refuse_token",
}
# A `spent_until` beyond the reach of all attempts stems from a clock jump and counts as unused.
_SPEND = """
    INSERT INTO accounts_attemptcount AS its (key, spent_until) VALUES (%(key)s, %(now)s + %(refill)s)
    ON CONFLICT (key) DO UPDATE SET spent_until = %(refill)s
        + CASE WHEN its.spent_until > %(now)s + %(span)s THEN %(now)s ELSE GREATEST(its.spent_until, %(now)s) END
    WHERE its.spent_until <= %(now)s + %(span)s - %(refill)s OR its.spent_until > %(now)s + %(span)s
    RETURNING key
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A counted attempt: (key, rate) of each of its counts."""

    counts: tuple[tuple[str, Rate], ...]

    def succeed(self) -> None:
        """Undo the count: the attempt was no guess."""
        for key, rate in self.counts:
            AttemptCount.objects.filter(key=key).update(spent_until=F("spent_until") - rate.refill)


def count_attempt(request: HttpRequest, purpose: Purpose, account: str) -> Attempt:
    """Count an attempt at `account`, an e-mail address as typed, existing or not. Refused attempts
    are not counted, so retrying does not prolong the wait. Up to 5 queries, also for a refusal.
    Raises TooManyRequests.
    """
    account = account.strip().lower()
    origin = attempt_origin(request, account)
    counts = [(limit, key, RATES[purpose][limit]) for limit, key in attempt_keys(purpose, account, origin)]
    used: list[tuple[str, Rate]] = []
    waiting_times = _waiting_times(counts)
    for limit, key, rate in counts:
        if not waiting_times and not _use_attempt(key, rate):
            Attempt(tuple(used)).succeed()
            waiting_times = {limit: rate.refill}  # a concurrent attempt used the last one
        if limit in waiting_times:
            _record_refusal(replace(actor_of(request), ip=origin.network), purpose, limit, account)
            raise throttle_error(purpose, limit, waiting_times[limit])
        used.append((key, rate))
    return Attempt(tuple(used))


def undo_attempt(request: HttpRequest, purpose: Purpose, account: str) -> None:
    """Undo the count of an earlier request of this browser: it was no guess."""
    counts = attempt_keys(purpose, account, attempt_origin(request, account))
    Attempt(tuple((key, RATES[purpose][limit]) for limit, key in counts)).succeed()


def count_admin_mail(account: str) -> None:
    """Count a mail sent by an administrator, under the usual limit. Raises TooManyRequests."""
    rate = RATES[Purpose.RESET][AttemptLimit.PLACE]
    if not _use_attempt(sha256(f"sent:{account}".encode()).hexdigest(), rate):
        raise throttle_error(Purpose.RESET, AttemptLimit.PLACE, rate.refill)


def purge_attempts() -> None:
    """Delete counts that no longer matter."""
    AttemptCount.objects.filter(spent_until__lt=clock.now()).delete()


def throttle_error(purpose: Purpose, limit: AttemptLimit, wait: timedelta) -> TooManyRequests:
    """Return the error with waiting time and alternatives; the same for unknown addresses."""
    wait_s = max(1, int(wait.total_seconds()) + 1)
    sentences = {
        Purpose.PASSWORD: _("There were too many wrong passwords, so this one was not looked at."),
        Purpose.CODE: _("There were too many wrong codes, so this one was not looked at."),
        Purpose.RESET: _("Mails for this were asked for too often, so none was sent."),
        Purpose.PROVIDER: _("From your network sign-ins were begun too often in a short time."),
        Purpose.SIGN_UP: _("There were too many attempts to sign up."),
        Purpose.JOIN: _("There were too many attempts to sign up."),
        Purpose.TOKEN: _("There were too many wrong tokens from your network."),
        Purpose.LINK: _("Public links were opened too often from your network."),
    }
    hint = f"{_retry_hint(wait_s)} {_alternative_hint(purpose, limit)}".strip()
    refusal = TooManyRequests(sentences[purpose], hint=hint, retry_after_s=wait_s)
    refusal.is_recorded = True
    return refusal


def _retry_hint(wait_s: int) -> str:
    if wait_s <= MINUTE_S:
        return ngettext("Try again in {count} second.", "Try again in {count} seconds.", wait_s).format(
            count=wait_s
        )
    minutes = -(-wait_s // MINUTE_S)
    return ngettext("Try again in {count} minute.", "Try again in {count} minutes.", minutes).format(
        count=minutes
    )


def _alternative_hint(purpose: Purpose, limit: AttemptLimit) -> str:
    if purpose in (Purpose.RESET, Purpose.SIGN_UP):
        return _("A mail that came before works, too; look among what was sorted out as well.")
    if limit is AttemptLimit.ACCOUNT:
        return _(
            "A browser or a network from which you signed in recently is let in at once, and so is a passkey."
        )
    if purpose is Purpose.PASSWORD and settings.BERTH_MAIL:
        return _("Who has forgotten the password chooses another one by mail.")
    return ""


def _use_attempt(key: str, rate: Rate) -> bool:
    """Use one attempt of this rate; False if none is left. One statement, so concurrent attempts
    cannot exceed the rate.
    """
    values: dict[str, Any] = {"key": key, "now": clock.now(), "refill": rate.refill, "span": rate.span}
    with connection.cursor() as cursor:
        cursor.execute(_SPEND, values)
        return cursor.fetchone() is not None


def _waiting_times(counts: Sequence[tuple[AttemptLimit, str, Rate]]) -> dict[AttemptLimit, timedelta]:
    """Return the waiting time of each used-up limit. One query, so that refusals in a flood cost no
    writes but the audit entry.
    """
    now = clock.now()
    rows = AttemptCount.objects.filter(key__in=[key for _limit, key, _rate in counts])
    spent = dict(rows.values_list("key", "spent_until"))
    waiting_times = {
        limit: spent.get(key, now) - now - rate.span + rate.refill for limit, key, rate in counts
    }
    longest = {limit: rate.refill for limit, _key, rate in counts}
    return {limit: wait for limit, wait in waiting_times.items() if timedelta(0) < wait <= longest[limit]}


def _record_refusal(actor: Actor, purpose: Purpose, limit: AttemptLimit, account: str) -> None:
    """Record a refusal at most once a minute: per address, per account and network, or per account
    for attempts from everywhere.
    """
    user = (
        User.objects.select_related("domain").filter(email=account).first()
        if limit is not AttemptLimit.ADDRESS
        else None
    )
    is_from_everywhere = limit is AttemptLimit.ACCOUNT
    is_new = audit_log.record_refusal(
        actor=replace(actor, ip="", user_agent="") if is_from_everywhere else actor,
        action=ACTIONS.get(purpose, SIGN_IN),
        reason=REASON,
        target=(User._meta.label_lower, str(user.pk) if user is not None else ""),
        target_label=user.email if user is not None else "",
        domain_id=user.domain_id if user is not None and user.role != Role.SUPERADMIN else None,
        kind=(purpose.value, limit.value, user.pk if user is not None else 0),
    )
    is_guess = purpose in (Purpose.PASSWORD, Purpose.CODE)
    if (
        is_new
        and is_guess
        and is_from_everywhere
        and user is not None
        and _use_attempt(f"news:{user.pk}", GUESSING_NOTICE_RATE)
    ):
        publish(PasswordGuessingDetected(user.pk))
