"""How many requests a token may send in a minute: the least that policies of the token, its person and their domain say, else the
setting; where all of them are a domain's own, no more than the setting. Counted in Redis, by one exchange for each request.

Redis carries no truth: while it does not answer, nobody is refused and nothing is counted (ADR 0025).
"""

import time
from dataclasses import dataclass

import redis
import structlog
from django.conf import settings
from django.utils.translation import gettext as _

from accounts.models import KeyPair
from common import clock
from common.errors import TooManyRequests
from common.messaging.redis import quick_client

log = structlog.get_logger(__name__)

MINUTE_S = 60
ASKED_AGAIN_AFTER_S = 5.0
_silent_until = 0.0


@dataclass(frozen=True, slots=True)
class Rate:
    """Of one token in the present minute: requests with this one, the most there may be, and when it begins anew."""

    used: int
    limit: int
    resets_in_s: int

    @property
    def is_exceeded(self) -> bool:
        return self.used > self.limit

    def headers(self) -> dict[str, str]:
        told = {
            "X-RateLimit-Limit": self.limit,
            "X-RateLimit-Remaining": max(0, self.limit - self.used),
            "X-RateLimit-Reset": self.resets_in_s,
        }
        if self.is_exceeded:
            told["Retry-After"] = self.resets_in_s
        return {name: str(value) for name, value in told.items()}


def count_request(keypair: KeyPair) -> Rate | None:
    """Count one request of this token, as `usable_keypair` found it, by the clock that all web processes share. None where
    nothing limits it, and while Redis does not answer; of a Redis that hangs only one request in ASKED_AGAIN_AFTER_S learns
    that anew."""
    global _silent_until
    limit = _limit_of(keypair)
    if limit is None or time.monotonic() < _silent_until:
        return None
    minute, passed_s = divmod(int(clock.now().timestamp()), MINUTE_S)
    key = f"berth:{settings.BERTH_INSTALLATION}:requests:{keypair.pk}:{minute}"
    try:
        with quick_client().pipeline(transaction=False) as pipe:
            pipe.incr(key)
            pipe.expire(key, 2 * MINUTE_S)
            used = int(pipe.execute()[0])
    except redis.RedisError as error:
        _silent_until = time.monotonic() + ASKED_AGAIN_AFTER_S
        log.warning("rates.redis_lost", error=str(error))
        return None
    return Rate(used=used, limit=limit, resets_in_s=MINUTE_S - passed_s)


def _limit_of(keypair: KeyPair) -> int | None:
    """None: any number. Only policies of the whole installation lift what the setting says."""
    setting: int | None = settings.BERTH_TOKEN_REQUESTS or None
    if keypair.policy_rate is None:
        return setting
    if keypair.central_rate is None and setting is not None:
        return min(keypair.policy_rate, setting)
    return keypair.policy_rate


def demand_rate(rate: Rate | None) -> None:
    """Raises TooManyRequests."""
    if rate is not None and rate.is_exceeded:
        raise TooManyRequests(
            _("This token may send {limit} requests in a minute, and has.").format(limit=rate.limit),
            hint=_("Wait {seconds} s, or ask an administrator for a higher limit.").format(
                seconds=rate.resets_in_s
            ),
        )
