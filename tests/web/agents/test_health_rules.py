"""Page of the health rules of accelerators."""

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from agents.models import HealthOverride
from tests.factories import make_user

pytestmark = pytest.mark.django_db
PAGE = "/accelerators/health/"


def test_rules_are_changed_added_and_set_back(browser_of: Callable[[User], Client]) -> None:
    admin = browser_of(make_user(role=Role.SUPERADMIN))
    forms = {name: form for name, _title, form in admin.get(PAGE).context["vendors"]}
    typed = {"vendor": "nvidia", **{entry.rule: entry.action for entry in forms["nvidia"].entries}}

    def changed() -> set[tuple[str, str, str]]:
        return set(HealthOverride.objects.values_list("vendor", "rule", "action"))

    for wrong in ({"throttle": "explode"}, {"xid": "-1"}, {"xid": "many"}, {"vendor": "nobody"}):
        assert admin.post(PAGE, {**typed, **wrong}).status_code == 422
    assert changed() == set()
    chosen = {**typed, "throttle": "quarantine", "lost": "ignore", "xid": "154", "xid_action": "warn"}
    assert admin.post(PAGE, chosen)["Location"] == PAGE
    throttle, lost = ("nvidia", "throttle", "quarantine"), ("nvidia", "lost", "ignore")
    assert changed() == {throttle, lost, ("nvidia", "xid-154", "warn")}
    assert "Xid) 154" in admin.get(PAGE).content.decode()
    admin.post(PAGE, {**typed, "xid-154": "quarantine", "lost": "ignore"})
    assert changed() == {lost}
