"""Celery tasks of `common`: purge of stored responses and of the audit log."""

from datetime import timedelta

from celery import shared_task
from django.conf import settings

from common import clock
from common.audit import audit_log
from common.messaging.dispatch import TaskName
from common.rest import idempotency


@shared_task(name=TaskName.PURGE_ANSWERS, soft_time_limit=300, time_limit=360)
def purge_answers() -> None:
    """Delete expired idempotency responses."""
    idempotency.purge_answers()


@shared_task(name=TaskName.PURGE_AUDIT, soft_time_limit=600, time_limit=660)
def purge_audit() -> None:
    """Delete lines of the audit log older than the setting BERTH_AUDIT_DAYS; 0 keeps all."""
    if settings.BERTH_AUDIT_DAYS > 0:
        audit_log.purge_audit(before=clock.now() - timedelta(days=settings.BERTH_AUDIT_DAYS))
