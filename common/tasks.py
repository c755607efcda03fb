"""Background work of floor 0."""

from celery import shared_task

from common import idempotency
from common.dispatch import TaskName


@shared_task(name=TaskName.PURGE_ANSWERS, soft_time_limit=300, time_limit=360)
def purge_answers() -> None:
    """Forget answers that nobody may ask for again."""
    idempotency.purge_answers()
