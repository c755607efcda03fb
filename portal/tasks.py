"""Celery tasks of notifications."""

from celery import shared_task

from common.messaging.dispatch import TaskName
from portal.notifications import budget, email, service, session_end, session_warning, storage


@shared_task(name=TaskName.NOTIFY_PEOPLE, soft_time_limit=60, time_limit=90)
def notify_people() -> None:
    session_warning.notify_of_warnings()
    session_end.notify_of_missed_ends()
    service.notify_of_deadlines()


@shared_task(name=TaskName.NOTIFY_OF_BUDGETS, soft_time_limit=240, time_limit=270)
def notify_of_budgets() -> None:
    budget.notify_of_budgets()


@shared_task(name=TaskName.NOTIFY_OF_STORAGE, soft_time_limit=240, time_limit=270)
def notify_of_storage() -> None:
    storage.notify_of_storage()


@shared_task(name=TaskName.MAIL_NOTIFICATIONS, soft_time_limit=120, time_limit=150)
def mail_notifications() -> None:
    """Send due notification mails."""
    email.mail_notifications()
