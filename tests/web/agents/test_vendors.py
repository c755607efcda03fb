"""Pages of accelerator vendors."""

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from agents.models import VendorFile
from tests.factories import make_user

pytestmark = pytest.mark.django_db
LIST = "/accelerators/vendors/"
TYPED = {
    "name": "board", "title": "Board", "model": "Board 1", "mem_bytes": "32g", "device": "/dev/board{n}",
    "also": "/dev/board_ctl\n/dev/board{n}_dma?", "variables": "BOARD_VISIBLE={n*}", "has_groups": "on", "takes_several": "on",
}  # fmt: skip


def test_an_own_vendor_is_added_changed_and_deleted(browser_of: Callable[[User], Client]) -> None:
    admin = browser_of(make_user(role=Role.SUPERADMIN))
    page = admin.get(LIST).content.decode()
    assert "NVIDIA" in page
    for device in ("/dev/mem", "/dev/sda", "/dev/../etc/passwd", "board"):
        refused = admin.post(f"{LIST}new/", {**TYPED, "device": device})
        assert refused.status_code == 422
        assert refused.context["form"].errors.keys() >= {"device"}, device
    wrong = admin.post(f"{LIST}new/", {**TYPED, "variables": "BOARD"})
    assert "variables" in wrong.context["form"].errors

    assert admin.post(f"{LIST}new/", TYPED)["Location"] == LIST
    row = VendorFile.objects.get()
    assert row.form["also"] == ["/dev/board_ctl", "/dev/board{n}_dma?"]
    assert row.form["variables"] == {"BOARD_VISIBLE": "{n*}"}

    address = f"{LIST}{row.pk}/"
    shown = admin.get(address).context["form"]
    assert shown["mem_bytes"].value() == "32 GiB"
    assert shown["also"].value() == "/dev/board_ctl\n/dev/board{n}_dma?"
    admin.post(address, {**TYPED, "name": "other", "title": "Boards"})
    row.refresh_from_db()
    assert (row.name, row.form["title"]) == ("board", "Boards")
    admin.post(f"{address}delete/")
    assert not VendorFile.objects.exists()
