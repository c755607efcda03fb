"""Programs that people use for WebDAV work against the web process of production."""

import re
import subprocess
from pathlib import Path

import pytest

from accounts.models import KeyPair
from common.token_scopes import TokenScope
from tests.conftest import People
from tests.factories import make_token
from tests.factories_folders import make_folder, make_storage_host
from vfolders.models import VFolder

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.wide]
SUITES = ("basic", "copymove", "props", "locks", "http")


@pytest.fixture
def folder(people: People, tmp_path: Path) -> VFolder:
    make_storage_host(tmp_path)
    return make_folder(people.member, name="data")


@pytest.fixture
def token(people: People) -> str:
    token = make_token(people.member)
    KeyPair.objects.filter(user=people.member).update(scopes=[TokenScope.FOLDERS.value])
    return token


@pytest.mark.parametrize("suite", SUITES)
def test_litmus_finds_no_fault(
    folder: VFolder, token: str, portal_url: str, tmp_path: Path, suite: str
) -> None:
    result = subprocess.run(
        ["litmus", "-k", f"{portal_url}/dav/data/", "me", token],
        env={"PATH": "/usr/bin:/bin", "TESTS": suite, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    summary = re.search(r"(\d+) passed, (\d+) failed", result.stdout)
    assert summary is not None, result.stdout
    assert summary[2] == "0", result.stdout
    assert "SKIPPED" not in result.stdout
