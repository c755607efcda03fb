"""Background work of accounts."""

from celery import shared_task
from django.contrib.sessions.models import Session

from accounts.models import SignInLink
from common import clock
from common.dispatch import TaskName


@shared_task(name=TaskName.PURGE_SIGN_INS, soft_time_limit=300, time_limit=360)
def purge_sign_ins() -> None:
    """Remove logins and one-time links whose time is over; nobody could use them any more."""
    Session.objects.filter(expire_date__lt=clock.now()).delete()
    SignInLink.objects.filter(expires_at__lt=clock.now()).delete()
