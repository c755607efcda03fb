"""Own accelerator vendors: written by superadmins alone, kept in the audit log, known beside the shipped ones."""

import pytest

from agents.accelerators.description import shipped_vendors
from agents.accelerators.device_files import DeviceFileVendor
from agents.core.isolation import SharingMode
from agents.models import VendorFile
from agents.vendors.selectors import known_vendor, known_vendors, vendor_entries
from agents.vendors.service import change_vendor_file, create_vendor_file, delete_vendor_file
from agents.vendors.sharing import sharing_modes
from common.actors import SYSTEM, Actor
from common.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from common.models import AuditEntry
from tests.factories import actor_for, make_user

FORM = DeviceFileVendor(name="board", title="Boards", model="Board 9", device="/dev/board{n}")


@pytest.mark.django_db
def test_own_vendor_is_known_until_it_is_deleted_and_its_values_stay_in_the_audit_log() -> None:
    row = create_vendor_file(actor=SYSTEM, form=FORM)
    assert [vendor.name for vendor in known_vendors()] == [
        *(each.name for each in shipped_vendors()),
        "board",
    ]
    change_vendor_file(
        actor=SYSTEM, vendor_id=row.pk, changes={"also": ["/dev/board{n}ctl"], "name": "other"}
    )
    vendor = known_vendor("board")
    assert vendor is not None
    assert vendor.grant.methods[0].devices == ("/dev/board{index}", "/dev/board{index}ctl")
    assert sharing_modes("board") == frozenset()
    [entry] = [entry for entry in vendor_entries(SYSTEM) if entry.id]
    assert (entry.id, entry.form) == (
        row.pk,
        DeviceFileVendor.from_json({**FORM.to_json(), "also": ["/dev/board{n}ctl"]}),
    )
    change_vendor_file(actor=SYSTEM, vendor_id=row.pk, changes={"takes_several": True})
    assert sharing_modes("board") == {SharingMode.SLICE}
    delete_vendor_file(actor=SYSTEM, vendor_id=row.pk)
    assert known_vendor("board") is None
    with pytest.raises(NotFound):
        delete_vendor_file(actor=SYSTEM, vendor_id=row.pk)
    lines = AuditEntry.objects.filter(action__contains="vendor_file").order_by("pk")
    assert [line.action.split(".")[1] for line in lines] == [
        "create_vendor_file", "change_vendor_file", "change_vendor_file", "delete_vendor_file",
    ]  # fmt: skip
    assert lines[0].changes["device"] == "/dev/board{n}"
    assert lines[1].changes == {"also": [[], ["/dev/board{n}ctl"]]}


@pytest.mark.django_db
def test_own_vendor_is_refused_to_others_if_it_exists_and_if_it_gives_disks() -> None:
    row = create_vendor_file(actor=SYSTEM, form=FORM)
    with pytest.raises(Conflict):
        create_vendor_file(actor=SYSTEM, form=FORM)
    with pytest.raises(InvalidInput) as refused:
        change_vendor_file(actor=SYSTEM, vendor_id=row.pk, changes={"device": "/dev/sd{n}"})
    assert list(refused.value.fields) == ["device"]
    user: Actor = actor_for(make_user())
    for attempt in (
        lambda: create_vendor_file(actor=user, form=FORM),
        lambda: change_vendor_file(actor=user, vendor_id=row.pk, changes={}),
        lambda: delete_vendor_file(actor=user, vendor_id=row.pk),
        lambda: vendor_entries(user),
    ):
        with pytest.raises(PermissionDenied):
            attempt()
    # Rules that became stricter since: the vendor finds and gives nothing.
    VendorFile.objects.update(form={**FORM.to_json(), "device": "/dev/mem"})
    assert known_vendor("board") is None
