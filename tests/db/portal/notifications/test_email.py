"""Notifications by mail are sent once, survive failures of the mail server, and follow preferences."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from django.db import connection

from accounts.models import User
from accounts.tenancy import offboarding
from common import clock
from common.actors import SYSTEM
from common.db.advisory_locks import try_exclusive
from portal.models import Notification, NotificationMail
from portal.notifications.catalogue import Code, Kind
from portal.notifications.service import choose_notifications, notify
from portal.tasks import mail_notifications
from tests.conftest import People
from tests.doubles.mail_server import MailServer
from tests.factories import actor_for

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]


@pytest.fixture(scope="module")
def running() -> Iterator[MailServer]:
    server = MailServer()
    yield server
    server.close()


@pytest.fixture
def server(running: MailServer, settings: Any) -> MailServer:
    running.mails.clear()
    running.fault = ""
    settings.BERTH_MAIL = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", running.port
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
    settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
    return running


@pytest.fixture
def member(people: People, server: MailServer) -> User:
    choose_notifications(actor=actor_for(people.member), mailed=[Kind.FAILED, Kind.SAFETY])
    return people.member


def tell(user: User, code: Code = Code.COMMAND_FAILED, happening: str = "one", name: str = "train") -> None:
    arguments = {"name": name, "exit_code": 7}
    notify(person_id=user.pk, code=code, happening=happening, arguments=arguments)


def mail_text(mail: EmailMessage) -> str:
    return str(mail.get_content())


def later(minutes: float) -> Any:
    return clock.frozen_at(clock.now() + timedelta(minutes=minutes))


def test_what_is_told_is_mailed_once_with_a_link_and_the_way_to_end_it(
    member: User, server: MailServer, settings: Any
) -> None:
    tell(member)
    tell(member)
    mail_notifications()
    mail_notifications()
    [mail] = server.mails
    assert (mail["To"], mail["Subject"]) == (member.email, "“train” failed with exit code 7.")
    assert mail["Auto-Submitted"] == "auto-generated"
    text = mail_text(mail)
    assert f"{settings.BERTH_URL}/notifications/" in text
    assert f"{settings.BERTH_URL}/profile/preferences/" in text
    assert not NotificationMail.objects.exists()
    assert Notification.objects.count() == 1


def test_each_reads_the_mail_in_the_own_language(member: User, server: MailServer) -> None:
    member.language = "ko"
    member.save()
    tell(member)
    mail_notifications()
    assert server.mails[0]["Subject"] != "“train” failed with exit code 7."
    assert "train" in server.mails[0]["Subject"]


def test_what_nobody_asked_for_is_not_mailed(people: People, member: User, server: MailServer) -> None:
    tell(people.outsider)
    tell(member, Code.COMMAND_FINISHED)
    mail_notifications()
    assert Notification.objects.count() == 2
    assert server.mails == []
    tell(member, Code.PASSWORDS_TRIED, "two")
    mail_notifications()
    assert [mail["Subject"] for mail in server.mails] == ["Many wrong passwords were tried for your account."]


def test_a_name_of_many_lines_is_no_head_of_a_mail(member: User, server: MailServer) -> None:
    tell(member, name="a\nBcc: all@berth.example\r\n\r\nb")
    mail_notifications()
    [mail] = server.mails
    assert mail["Bcc"] is None
    assert "Bcc: all@berth.example" in mail["Subject"]


def test_no_mail_after_opting_out_or_closing(people: People, member: User, server: MailServer) -> None:
    tell(member)
    choose_notifications(actor=actor_for(member), mailed=[])
    mail_notifications()
    assert not NotificationMail.objects.exists()
    choose_notifications(actor=actor_for(member), mailed=[Kind.FAILED])
    tell(member, happening="two")
    offboarding.close_user(actor=SYSTEM, user_id=member.pk)
    mail_notifications()
    assert not NotificationMail.objects.exists()
    assert server.mails == []


def test_a_mail_server_that_is_away_gets_it_later(member: User, settings: Any, server: MailServer) -> None:
    dead = MailServer()
    dead.close()
    settings.EMAIL_PORT = dead.port
    tell(member)
    mail_notifications()
    settings.EMAIL_PORT, server.fault = server.port, "dies"
    mail_notifications()
    assert NotificationMail.objects.count() == 1
    server.fault = ""
    with later(2):
        mail_notifications()
    assert len(server.mails) == 1
    assert not NotificationMail.objects.exists()


def test_a_server_that_takes_a_mail_and_does_not_say_so_gets_it_a_few_times_a_day_and_the_others_meanwhile(
    people: People, member: User, server: MailServer
) -> None:
    choose_notifications(actor=actor_for(people.outsider), mailed=[Kind.FAILED])
    server.fault = "says nothing"
    with clock.frozen_at(clock.now()):
        tell(member)
        for minute in range(24 * 60):
            with later(minute):
                if NotificationMail.objects.filter(due_at__lte=clock.now()).exists():
                    mail_notifications()
    assert len(server.mails) == 12  # at minutes 0, 1, 2, 4, 8, …, 1024
    assert len({mail["Message-ID"] for mail in server.mails}) == 1

    server.mails.clear()
    server.fault = ""
    tell(people.outsider)
    mail_notifications()
    assert [mail["To"] for mail in server.mails] == [people.outsider.email]


def test_a_notification_that_cannot_be_read_stops_none_behind_it(member: User, server: MailServer) -> None:
    tell(member)
    Notification.objects.update(code="of_another_release")
    tell(member, happening="two")
    mail_notifications()
    assert len(server.mails) == 1
    assert not NotificationMail.objects.exists()


def test_what_was_sent_but_not_noted_comes_again_under_the_same_name(
    member: User, server: MailServer
) -> None:
    """As when the worker is killed in between."""
    tell(member)
    mail_notifications()
    NotificationMail.objects.create(notification=Notification.objects.get())
    mail_notifications()
    first, second = (mail["Message-ID"] for mail in server.mails)
    assert first == second


@pytest.mark.parametrize("fault", ["nobody", "spam"])
def test_what_is_refused_for_ever_is_forgotten(member: User, server: MailServer, fault: str) -> None:
    tell(member)
    server.fault = fault
    mail_notifications()
    assert not NotificationMail.objects.exists()


def test_what_is_refused_for_now_waits_longer_each_time_and_holds_nobody_else_up(
    people: People, member: User, server: MailServer
) -> None:
    choose_notifications(actor=actor_for(people.outsider), mailed=[Kind.FAILED])
    tell(member)
    server.fault = "full"
    mail_notifications()
    server.fault = ""
    tell(people.outsider)
    mail_notifications()
    assert [mail["To"] for mail in server.mails] == [people.outsider.email]
    with later(2):
        server.fault = "full"
        mail_notifications()
    server.fault = ""
    with later(3):
        mail_notifications()
        assert len(server.mails) == 1
    with later(5):
        mail_notifications()
    assert len(server.mails) == 2


def test_after_a_day_it_is_no_news_any_more(member: User, server: MailServer) -> None:
    tell(member)
    with later(24 * 60 + 1):
        mail_notifications()
    assert server.mails == []
    assert not NotificationMail.objects.exists()


def test_where_no_mail_is_set_up_none_waits(member: User, settings: Any) -> None:
    tell(member)
    settings.BERTH_MAIL = False
    tell(member, happening="two")
    assert NotificationMail.objects.count() == 1
    mail_notifications()
    assert not NotificationMail.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_workers_never_send_at_once(member: User, server: MailServer) -> None:
    tell(member)
    held = threading.Event()
    done = threading.Event()

    def hold() -> None:
        with try_exclusive("notification-mails"):
            held.set()
            done.wait(30)
        connection.close()

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(30)
    mail_notifications()
    assert server.mails == []
    done.set()
    other.join()
    mail_notifications()
    assert len(server.mails) == 1
