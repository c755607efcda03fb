"""Rate limit of API tokens in requests per minute, counted in Redis with one round trip per
request.

The limit is the smallest one of the policies of the token, its user and their domain, else the
setting. If all of these policies belong to a domain, it does not exceed the setting. Without Redis
nothing is limited or counted (ADR 0025).
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
REDIS_RETRY_AFTER_S = 5.0
_redis_retry_at = 0.0


@dataclass(frozen=True, slots=True)
class Rate:
    """State of one token in the current minute: requests including this one, their limit, and the
    seconds until the next minute.
    """

    used: int
    limit: int
    resets_in_s: int

    @property
    def is_exceeded(self) -> bool:
        return self.used > self.limit

    def headers(self) -> dict[str, str]:
        values = {
            "X-RateLimit-Limit": self.limit,
            "X-RateLimit-Remaining": max(0, self.limit - self.used),
            "X-RateLimit-Reset": self.resets_in_s,
        }
        if self.is_exceeded:
            values["Retry-After"] = self.resets_in_s
        return {name: str(value) for name, value in values.items()}


def count_request(keypair: KeyPair, factor: int = 1) -> Rate | None:
    """Count one request of a token that `find_usable_keypair` returned, by the shared clock of the web
    processes. Requests with another `factor` are counted apart, against a limit that is so many times
    higher. Returns None without a limit or while Redis is unavailable; after a failure Redis is
    retried once in REDIS_RETRY_AFTER_S.
    """
    global _redis_retry_at
    limit = _rate_limit(keypair)
    if limit is None or time.monotonic() < _redis_retry_at:
        return None
    minute, passed_s = divmod(int(clock.now().timestamp()), MINUTE_S)
    kind = f"{keypair.pk}:{minute}" if factor == 1 else f"{keypair.pk}:{minute}:{factor}"
    key = f"berth:{settings.BERTH_INSTALLATION}:requests:{kind}"
    try:
        with quick_client().pipeline(transaction=False) as pipe:
            pipe.incr(key)
            pipe.expire(key, 2 * MINUTE_S)
            used = int(pipe.execute()[0])
    except redis.RedisError as error:
        _redis_retry_at = time.monotonic() + REDIS_RETRY_AFTER_S
        log.warning("rates.redis_lost", error=str(error))
        return None
    return Rate(used=used, limit=limit * factor, resets_in_s=MINUTE_S - passed_s)


def _rate_limit(keypair: KeyPair) -> int | None:
    """Return the limit per minute or None. Only installation-wide policies may exceed the setting."""
    setting: int | None = settings.BERTH_TOKEN_REQUESTS or None
    if keypair.policy_rate is None:
        return setting
    if keypair.central_rate is None and setting is not None:
        return min(keypair.policy_rate, setting)
    return keypair.policy_rate


def check_rate(rate: Rate | None) -> None:
    """Raise TooManyRequests if the rate is exceeded."""
    if rate is not None and rate.is_exceeded:
        raise TooManyRequests(
            _("This token may send {limit} requests in a minute, and has.").format(limit=rate.limit),
            hint=_("Wait {seconds} s, or ask an administrator for a higher limit.").format(
                seconds=rate.resets_in_s
            ),
        )
