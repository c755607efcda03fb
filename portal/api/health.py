"""Health checks of PostgreSQL and Redis."""

import redis
import structlog
from django.db import DatabaseError, connection

from common.messaging.redis import client

log = structlog.get_logger(__name__)


def database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        log.warning("health.database_lost", error=str(error))
        return False
    return True


def redis_answers() -> bool:
    try:
        return bool(client().ping())
    except redis.RedisError as error:
        log.warning("health.redis_lost", error=str(error))
        return False
