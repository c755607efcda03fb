"""Few of many concurrent wrong passwords are checked, and the owner can still sign in."""

import threading
from itertools import count

import pytest
from allauth.account.adapter import get_adapter
from django.contrib.auth.models import AnonymousUser
from django.db import connections
from django.http import HttpRequest
from django.test import Client, RequestFactory

from accounts.core.throttle import GUESS_RATES, AttemptLimit
from accounts.models import User
from common.errors import TooManyRequests
from common.models import AuditEntry
from tests.factories import PASSWORD, make_user
from tests.width import times

pytestmark = [pytest.mark.walk, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
WORKERS, GUESSED, ADDRESSES = 8, times(500, wide=5000), 250
OWN = "203.0.113.7"


def from_address(ip: str) -> HttpRequest:
    request = RequestFactory(REMOTE_ADDR=ip).post("/account/login/")
    request.user = AnonymousUser()
    return request


def test_of_many_wrong_passwords_few_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    user = make_user()
    known = Client(REMOTE_ADDR=OWN)
    known.post("/account/login/", {"login": user.email, "password": PASSWORD})
    known.post("/account/logout/")
    tried, refused, wrong, numbers = count(), count(), [], count()
    check = User.check_password
    monkeypatch.setattr(User, "check_password", lambda self, text: (next(tried), check(self, text))[1])

    def guess() -> None:
        try:
            while (number := next(numbers)) < GUESSED:
                try:
                    request = from_address(f"192.0.2.{number % ADDRESSES}")
                    get_adapter().authenticate(request, email=user.email, password=f"guess {number}")
                except TooManyRequests:
                    next(refused)
        except Exception as error:  # noqa: BLE001
            wrong.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=guess) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    looked_at = next(tried)
    assert looked_at == GUESS_RATES[AttemptLimit.ACCOUNT].burst
    assert next(refused) == GUESSED - looked_at
    assert AuditEntry.objects.filter(reason="too_many_attempts").count() < 20

    there = Client(REMOTE_ADDR="192.0.2.1")
    assert there.post("/account/login/", {"login": user.email, "password": PASSWORD}).status_code == 429
    assert known.post("/account/login/", {"login": user.email, "password": PASSWORD}).status_code == 302
