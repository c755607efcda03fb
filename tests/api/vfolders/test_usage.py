"""REST of quotas, limits, sizes of directories and totals."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from common import clock
from tests.factories import make_project, make_user
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit
from vfolders import tasks
from vfolders.models import SizeSample, StorageHost, VFolder

KIB = 1024


@pytest.fixture
def host(db: None, tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_quota_limits_and_directories_of_a_folder(host: StorageHost) -> None:
    owner = make_user(member_of=make_project())
    folder, client = make_folder(owner, name="data"), client_of(owner)
    limit(owner, max_folder_bytes=8 * KIB)
    at = f"/api/v1/folders/{folder.pk}"
    answer = client.put(f"{at}/quota/", {"quota_bytes": 4 * KIB}, content_type="application/json")
    assert (answer.status_code, answer.json()["quota_bytes"], answer.json()["is_quota_fixed"]) == (
        200, 4 * KIB, False,
    )  # fmt: skip
    refused = client.put(f"{at}/quota/", {"quota_bytes": 9 * KIB}, content_type="application/json")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["quota_bytes"])
    client.put(f"{at}/files/a/b.csv", b"x" * KIB, content_type="application/octet-stream")
    assert [(each["level"], each["limit_bytes"], each["used_bytes"]) for each in client.get(f"{at}/limits/").json()] == [
        ("user", 8 * KIB, KIB), ("folder", 4 * KIB, KIB),
    ]  # fmt: skip

    assert client.get(f"{at}/usage/directories/").json()["counted_at"] is None
    asked = client.post(f"{at}/usage/directories/")
    assert (asked.status_code, asked.json()["is_awaited"]) == (202, True)
    tasks.count_directories()
    report = client.get(f"{at}/usage/directories/").json()
    assert report["directories"] == [
        {"name": "a", "size_bytes": KIB, "file_count": 1, "is_addressable": True}
    ]
    assert (report["suffixes"][0]["name"], report["ages"][0]["file_count"], report["is_awaited"]) == (
        ".csv",
        1,
        False,
    )
    below = client.get(f"{at}/usage/directories/", {"path": "a"}).json()
    assert (below["path"], below["size_bytes"], below["own_bytes"]) == ("a", KIB, KIB)
    for path, status in (("../a", 400), ("none", 404)):
        assert client.get(f"{at}/usage/directories/", {"path": path}).status_code == status


def test_totals_show_growth_to_those_who_oversee(host: StorageHost) -> None:
    project = make_project()
    owner = make_user(member_of=project)
    own, shared = make_folder(owner, name="own"), make_folder(owner, name="shared", project=project)
    VFolder.objects.filter(pk=own.pk).update(size_bytes=2 * KIB)
    VFolder.objects.filter(pk=shared.pk).update(size_bytes=5 * KIB)
    for _ in range(2):
        tasks.sample_sizes()
    assert SizeSample.objects.count() == 2
    SizeSample.objects.update(day=(clock.now() - timedelta(days=30)).date(), size_bytes=KIB)
    admin = client_of(make_user(role=Role.SUPERADMIN))
    for what, name, used, limit_bytes in (
        ("users", owner.email, 2 * KIB, None), ("projects", project.name, 5 * KIB, None), ("hosts", "local", 7 * KIB, 9 * KIB),
    ):  # fmt: skip
        StorageHost.objects.update(max_bytes=9 * KIB)
        row = admin.get(f"/api/v1/storage/{what}/").json()["results"][0]
        assert (row["name"], row["used_bytes"], row["limit_bytes"]) == (name, used, limit_bytes)
        assert row["growth_bytes"] == used - (2 * KIB if what == "hosts" else KIB)
    assert admin.get("/api/v1/storage/users/", {"host": "none"}).json()["results"][0]["used_bytes"] == 0
    found = admin.get("/api/v1/storage/folders/", {"min_bytes": 3 * KIB}).json()["results"]
    assert [each["name"] for each in found] == ["shared"]

    plain = client_of(owner)
    for what in ("users", "hosts", "folders"):
        assert plain.get(f"/api/v1/storage/{what}/").json()["results"] == []
    status = plain.get("/api/v1/storage/").json()
    assert (status["used_bytes"], status["folder_count"]) == (2 * KIB, 1)
    assert status["hosts"] == [
        {"host": "local", "used_bytes": 2 * KIB, "folder_count": 1, "limit_bytes": None}
    ]
