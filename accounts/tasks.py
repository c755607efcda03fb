"""Background work of accounts."""

from celery import shared_task

from accounts import attempts, importing, invitations, known_places, login_limit, offboarding, rule_members
from accounts.models import BrowserLogin, SignInLink
from common import clock
from common.db.advisory_locks import try_exclusive
from common.messaging.dispatch import TaskName


@shared_task(name=TaskName.PURGE_SIGN_INS, soft_time_limit=300, time_limit=360)
def purge_sign_ins() -> None:
    """Remove logins, counted attempts, one-time links and invitations whose time is over; nobody could use them any more."""
    BrowserLogin.objects.filter(expire_date__lt=clock.now()).delete()
    SignInLink.objects.filter(expires_at__lt=clock.now()).delete()
    attempts.purge_attempts()
    known_places.purge_known_places()
    login_limit.purge_ended_logins()
    invitations.purge_invitations()
    importing.purge_imports()


@shared_task(name=TaskName.CONTINUE_OFFBOARDINGS, soft_time_limit=300, time_limit=360)
def continue_offboardings() -> None:
    """Go on with letting go of what people who left had here."""
    offboarding.continue_offboardings()


@shared_task(name=TaskName.CONTINUE_IMPORTS, soft_time_limit=300, time_limit=360)
def continue_imports() -> None:
    """Go on with taking people in from files."""
    importing.continue_imports()


@shared_task(name=TaskName.FOLLOW_RULES, soft_time_limit=300, time_limit=360)
def follow_rules() -> None:
    """Make members of projects what the projects' rules say."""
    with try_exclusive("follow-rules") as is_mine:
        if is_mine:
            rule_members.follow_all_rules()
