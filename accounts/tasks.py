"""Celery tasks of accounts: purging, offboarding, imports, membership rules."""

from celery import shared_task

from accounts.logins import concurrent_logins, trusted_devices
from accounts.models import BrowserLogin, SignInLink
from accounts.sign_in import throttle
from accounts.tenancy import invitations, membership_sync, offboarding, user_import
from common import clock
from common.db.advisory_locks import try_exclusive
from common.messaging.dispatch import TaskName


@shared_task(name=TaskName.PURGE_SIGN_INS, soft_time_limit=300, time_limit=360)
def purge_sign_ins() -> None:
    """Delete expired logins, counts, links, trusted devices, invitations and imports."""
    BrowserLogin.objects.filter(expire_date__lt=clock.now()).delete()
    SignInLink.objects.filter(expires_at__lt=clock.now()).delete()
    throttle.purge_attempts()
    trusted_devices.purge_devices()
    concurrent_logins.purge_ended_logins()
    invitations.purge_invitations()
    user_import.purge_imports()


@shared_task(name=TaskName.CONTINUE_OFFBOARDINGS, soft_time_limit=300, time_limit=360)
def continue_offboardings() -> None:
    """Continue unfinished offboardings."""
    offboarding.continue_offboardings()


@shared_task(name=TaskName.CONTINUE_IMPORTS, soft_time_limit=300, time_limit=360)
def continue_imports() -> None:
    """Continue unfinished imports of users."""
    user_import.continue_imports()


@shared_task(name=TaskName.FOLLOW_RULES, soft_time_limit=300, time_limit=360)
def follow_rules() -> None:
    """Apply the membership rules of all projects. Skipped while another worker does it."""
    with try_exclusive("follow-rules") as is_mine:
        if is_mine:
            membership_sync.apply_all_rules()
