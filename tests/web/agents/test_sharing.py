"""Pages of the rules by which accelerators are shared."""

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from agents.models import SharingRule
from tests.factories import make_user
from tests.factories_devices import give_devices
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
LIST = "/accelerators/sharing/"


def test_a_rule_is_added_changed_and_deleted(place: Place, browser_of: Callable[[User], Client]) -> None:
    give_devices(place.agent, 1, "Big One")
    admin = browser_of(make_user(domain=place.project.domain, role=Role.SUPERADMIN))
    assert "No rules yet" in admin.get(LIST).content.decode()
    typed = {"group": place.group.pk, "model": "Big One", "mode": "memory", "smallest_share": "0.25"}
    assert admin.post(LIST, typed)["Location"] == LIST
    rule = SharingRule.objects.get()
    assert (rule.model, rule.mode, rule.smallest_share) == ("Big One", "memory", 250)
    shown = admin.get(LIST).content.decode()
    assert "The driver limits memory; computing is in turns." in shown

    # A model that is still to come is typed, and may have a mode that no present device has.
    assert admin.post(LIST, {**typed, "model": "To come", "mode": "mps"})["Location"] == LIST
    SharingRule.objects.get(model="To come", mode="mps").delete()

    twice = admin.post(LIST, typed)
    assert twice.status_code == 422
    address = f"{LIST}{place.group.pk}/{rule.pk}/"
    refused = admin.post(address, {"model": "Big One", "mode": "hook", "smallest_share": "0.25"})
    assert refused.status_code == 422
    assert "Name the image that contains the hook library." in refused.content.decode()
    admin.post(address, {"model": "", "mode": "forbidden", "smallest_share": "0.5"})
    rule.refresh_from_db()
    assert (rule.model, rule.mode, rule.smallest_share) == ("", "forbidden", 500)

    admin.post(f"{address}delete/")
    assert not SharingRule.objects.exists()
