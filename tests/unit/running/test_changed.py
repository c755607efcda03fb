"""`bin/test --changed` finds the tests of a change."""

from pathlib import Path

import pytest

from portal.ops.paths import CHECKOUT
from tests.running import changed
from tests.running.changed import concerns_everything, distances, nearest


def test_a_test_that_imports_the_file_is_nearer_than_one_that_imports_its_users() -> None:
    own, loose = (
        CHECKOUT / "tests" / "unit" / "running" / f"test_{name}.py" for name in ("changed", "needs")
    )
    found = distances({CHECKOUT / "tests" / "running" / "changed.py"}, [own, loose])
    assert found == {own: 1}
    found = distances({CHECKOUT / "tests" / "running" / "imports.py"}, [own, loose])
    assert found[loose] == 1
    assert found[own] == 2


def test_a_page_and_its_template_are_found_by_the_address_that_a_test_asks_for(tmp_path: Path) -> None:
    test = tmp_path / "test_pages.py"
    test.write_text(
        'PAGE = "/data/"\n\n\ndef test_page(browser, folder):\n    browser.get(f"{PAGE}{folder.pk}/?tab=1")\n'
    )
    views = changed.views_in(test)
    assert len(views) == 2  # the list, and the page of one of them
    assert all(path.suffix == ".html" for view in views for path in changed.templates_in(view))
    assert any(changed.templates_in(view) for view in views)


def test_the_nearest_files_fill_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed, "BUDGET_S", 5.0)
    far, near, long = (CHECKOUT / f"test_{name}.py" for name in ("far", "near", "long"))
    seconds = {"test_far.py": 1.0, "test_near.py": 1.0, "test_long.py": 4.5}
    assert nearest({far: 2, near: 1, long: 1}, seconds) == [near]
    assert nearest({long: 1, far: 2}, seconds) == [long]
    assert nearest({far: 2, near: 1}, seconds) == [near, far]


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("portal/settings.py", True),
        ("requirements.txt", True),
        ("accounts/migrations/0001_initial.py", True),
        ("tests/conftest.py", True),
        ("tests/e2e/test_frame.py", True),
        ("templates/base.html", True),
        ("static/src/app.js", True),
        ("templates/agents/detail.html", False),
        ("agents/capacity/overcommit.py", False),
    ],
)
def test_files_imported_by_nobody_concern_all_tests(name: str, verdict: bool) -> None:
    assert concerns_everything(CHECKOUT / name) is verdict
