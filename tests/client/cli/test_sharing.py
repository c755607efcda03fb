"""Sharing of folders by command, against the web process."""

from pathlib import Path

import pytest

from tests import factories
from tests.client.conftest import Command
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place
from vfolders.files.service import write_file
from vfolders.selectors import visible_folders

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(150)]


def test_folders_are_shared_accepted_left_and_linked(
    place: Place, berth: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_storage_host(tmp_path)
    friend = factories.make_user(domain=place.owner.domain)
    folder = make_folder(place.owner, name="data")
    owner = factories.actor_for(place.owner)
    write_file(actor=owner, folder_id=folder.pk, path="a.txt", chunks=[b"hello"])

    assert berth("folder", "share", "data", friend.email, "--right", "write").code == 0
    assert berth("folder", "share", "data", friend.email).code == 0
    assert f"{friend.email}\tread\tinvited" in berth("folder", "shares", "data").out
    url = berth("folder", "link", "data", "a.txt", "--downloads", "1").out.strip()
    own_token = factories.make_token(friend)
    monkeypatch.setenv("BERTH_TOKEN", own_token)
    assert "data\t" in berth("folder", "invitations").out
    assert berth("folder", "accept", "data").out.strip() == str(folder.pk)
    assert visible_folders(factories.actor_for(friend)).exists()
    assert berth("folder", "share", "data", place.owner.email).code != 0
    assert berth("folder", "leave", "data").code == 0
    assert berth("folder", "accept", "data").code != 0
    assert url.startswith("http")
