"""bin/up --role web|worker joins an installation, and makes none."""

from pathlib import Path

import pytest

from portal.ops.errors import PreflightFailed
from portal.ops.paths import Layout
from portal.ops.setup.env_file import read_env, updated, write_env
from portal.ops.setup.purge import purge_data
from portal.ops.setup.role import SHARED, Role, choose_role
from portal.ops.up import write_settings
from tests.ops.test_purge import silent


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    for name in SHARED:
        monkeypatch.delenv(name, raising=False)
    data = tmp_path / "var"
    data.mkdir()
    return Layout(checkout=tmp_path, data=data)


def given(layout: Layout) -> dict[str, str]:
    """An env file as an administrator copied it."""
    values = updated({}, host="0.0.0.0", port=8080) | {"BERTH_URL": "https://berth.example.org"}
    write_env(layout.env_file, values)
    return values


def test_a_role_that_lacks_secrets_says_which_and_makes_none(layout: Layout) -> None:
    with pytest.raises(PreflightFailed, match=r"lacks BERTH_SECRET_KEY, .*REDIS_URL") as refusal:
        choose_role(layout, "web")
    assert str(layout.env_file) in refusal.value.fix
    assert not layout.env_file.exists()


def test_what_was_given_is_kept_and_the_role_remembered(layout: Layout) -> None:
    values = given(layout)
    role = choose_role(layout, "worker")
    write_settings(None, layout, role)  # type: ignore[arg-type]  # it has no options
    assert values.items() <= read_env(layout.env_file).items()
    assert choose_role(layout, "") is Role.WORKER


@pytest.mark.parametrize(("before", "wanted"), [("", "web"), ("web", "all")])
def test_data_of_a_whole_portal_and_of_a_part_are_not_confused(
    layout: Layout, before: str, wanted: str
) -> None:
    write_env(layout.env_file, given(layout) | ({"BERTH_ROLE": before} if before else {}))
    layout.lock_file.touch()  # it has run
    with pytest.raises(PreflightFailed, match="holds the data of a portal with the role"):
        choose_role(layout, wanted)


def test_purge_of_a_part_leaves_the_folders_of_all(layout: Layout) -> None:
    write_env(layout.env_file, given(layout) | {"BERTH_ROLE": "worker"})
    for name in ("folders", "scratch", "uploads"):
        (layout.data / name).mkdir()
    purge_data(layout, silent)
    assert {entry.name for entry in layout.data.iterdir()} == {"folders", "scratch"}
