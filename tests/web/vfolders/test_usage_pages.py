"""Pages of storage use: of a folder, and of all folders, users, projects and hosts."""

from pathlib import Path

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from tests.factories import make_project, make_user
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit
from vfolders import tasks
from vfolders.core.states import FolderState
from vfolders.models import StorageHost, VFolder

KIB = 1024


@pytest.fixture
def host(db: None, tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text_of(client: Client, url: str, **query: str) -> str:
    answer = client.get(url, query)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_folder_shows_what_fills_it_level_by_level(host: StorageHost) -> None:
    owner = make_user(member_of=make_project())
    limit(owner, max_folder_bytes=8 * KIB)
    folder, client = make_folder(owner, name="data"), client_of(owner)
    root = Path(host.config["root"]) / folder.pk.hex
    for name, size in (("a/b/x.csv", 3 * KIB), ("c&d/y", KIB), ("top", 1), (".berth-trash/z", 1)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x" * size)
    url = f"/data/{folder.pk}/usage/"
    assert "Not counted yet" in text_of(client, url)
    assert client.post(f"{url}count/").status_code == 302
    assert "Counting…" in text_of(client, url)
    tasks.count_directories()
    page = text_of(client, url)
    assert page.index("usage/?path=a") < page.index("c&amp;d") < page.index("Files in this directory")
    assert ".csv" in page
    assert ".berth-trash" not in page
    assert f'href="/data/{folder.pk}/deleted/"' in page
    assert "Your account" in page
    below = text_of(client, url, path="a")
    assert "3 KiB" in below
    assert "?path=a%2Fb" in below, "to the files of the last level"
    assert client.get(url, {"path": "gone"}).status_code == 302

    refused = client.post(f"/data/{folder.pk}/quota/", {"quota_bytes": "9k"})
    assert refused.status_code == 422
    assert "a quota cannot be larger" in refused.content.decode()
    assert client.post(f"/data/{folder.pk}/quota/", {"quota_bytes": "6k"}).status_code == 302
    assert "The folder “data”" in text_of(client, f"/data/{folder.pk}/")
    assert "Your storage" in text_of(client, "/data/")


def test_administrators_set_quotas_and_move_folders_to_the_trash(host: StorageHost) -> None:
    project = make_project()
    owner, governor = make_user(member_of=project), make_user(domain=project.domain, role=Role.DOMAIN_ADMIN)
    folders = [make_folder(owner, name=name) for name in ("one", "two")]
    make_folder(make_user(), name="of-another-domain")
    client = client_of(governor)
    page = text_of(client, "/data/all/")
    assert "one" in page
    assert "of-another-domain" not in page
    ids = [str(folder.pk) for folder in folders]
    asked = client.post("/data/all/quota/", {"folder": ids})
    assert "Quota of 2 folders" in asked.content.decode()
    client.post("/data/all/quota/", {"folder": ids, "confirmed": "1", "quota_bytes": "1g"})
    assert set(VFolder.objects.filter(pk__in=ids).values_list("quota_bytes", "is_quota_fixed")) == {
        (2**30, True)
    }
    client.post("/data/all/trash/", {"folder": ids[:1], "confirmed": "1"})
    assert VFolder.objects.get(pk=ids[0]).state == FolderState.TRASHED
    assert "one" in text_of(client, "/data/all/", tab="trash")
    assert "two" not in text_of(client, "/data/all/", use="90d")


def test_totals_name_limits_of_hosts_and_policies(host: StorageHost) -> None:
    project = make_project()
    owner = make_user(member_of=project)
    limit(owner, max_folder_bytes=4 * KIB)
    VFolder.objects.filter(pk=make_folder(owner).pk).update(size_bytes=KIB)
    VFolder.objects.filter(pk=make_folder(owner, project=project).pk).update(size_bytes=2 * KIB)
    client = client_of(make_user(role=Role.SUPERADMIN))
    assert (
        client.post(f"/data/all/hosts/{host.pk}/", {"max_bytes": "30k", "max_user_bytes": "7k"}).status_code
        == 302
    )
    for url, name, amount in (
        ("users", owner.email, "1 of 4 KiB"),
        ("users/?host=local", owner.email, "1 of 7 KiB"),
        ("projects", project.name, "2 KiB"),
        ("hosts", "local", "3 of 30 KiB"),
    ):
        page = text_of(client, f"/data/all/{url}" if "?" in url else f"/data/all/{url}/").replace("\xa0", " ")
        assert name in page
        assert amount in page
