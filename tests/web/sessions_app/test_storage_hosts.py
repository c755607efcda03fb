"""Pages of storage hosts: kinds, settings, rights, removal."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import User
from tests.conftest import People
from vfolders.models import StorageHost

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(people: People, browser_of: Callable[[User], Client]) -> Client:
    return browser_of(people.superadmin)


def test_a_host_is_added_changed_restricted_and_removed(browser: Client, people: People) -> None:
    kinds = browser.get(reverse("storage-host-kinds")).content.decode()
    assert "mount.nfs (Debian package nfs-common)" in kinds
    assert "simulated" in kinds

    address = reverse("add-storage-host", args=["loop"])
    answer = browser.post(address, {"name": "images", "root": "images", "folder_gib": "many"})
    assert answer.status_code == 422
    assert "whole number" in answer.content.decode()
    answer = browser.post(address, {"name": "images", "root": "images", "folder_gib": "1"})
    assert answer.status_code == 302
    host = StorageHost.objects.get(name="images")
    listed = browser.get(reverse("storage-hosts")).content.decode()
    assert "Image per folder" in listed
    assert "quotas of folders" in listed

    address = reverse("storage-host-settings", args=[host.pk])
    assert browser.post(address, {"root": "images", "folder_gib": "2"}).status_code == 302
    host.refresh_from_db()
    assert (host.config["folder_gib"], host.is_active) == ("2", False)

    address = reverse("storage-host-rights", args=[host.pk])
    rows = {"grants-TOTAL_FORMS": "2", "grants-INITIAL_FORMS": "0", "is_restricted": "on"}
    row = {"grants-0-holder": "domain", "grants-0-name": "nowhere", "grants-0-rights": ["create", "mount"]}
    empty = {"grants-1-holder": "domain", "grants-1-name": ""}
    answer = browser.post(address, {**rows, **row, **empty})
    assert answer.status_code == 422
    assert "nowhere" in answer.content.decode()
    row["grants-0-name"] = people.domain.name
    assert browser.post(address, {**rows, **row, **empty}).status_code == 302
    assert [str(each) for each in host.grants.all()] == [f"domain {people.domain.name}"]
    assert browser.get(address).status_code == 200

    browser.post(reverse("remove-storage-host", args=[host.pk]))
    assert not StorageHost.objects.filter(name="images").exists()


def test_a_secret_is_shown_nowhere_and_stays_if_it_is_not_given(browser: Client) -> None:
    host = StorageHost.objects.create(
        name="nas",
        kind="smb",
        config={"server": "nas", "share": "x", "user": "u"},
        secrets='{"password": "hunter2"}',
    )
    for address in (reverse("storage-host-settings", args=[host.pk]), reverse("storage-hosts")):
        assert "hunter2" not in browser.get(address).content.decode()
    assert "hunter2" not in browser.get("/api/v1/storage-hosts/").content.decode()
