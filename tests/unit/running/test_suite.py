"""Runs of the whole suite by `bin/test`."""

import os
from pathlib import Path

import pytest

from portal.ops.locks import running
from portal.ops.paths import CHECKOUT, Layout
from tests.running import __main__ as suite


def test_a_working_tree_has_one_suite_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "NOTES", tmp_path)
    monkeypatch.setattr(suite, "is_green", lambda *, is_wide: not is_wide)
    with running(Layout(checkout=CHECKOUT, data=tmp_path)):
        assert suite.main([]) == 1
        assert f"process {os.getpid()} runs the suite" in capsys.readouterr().out

    assert suite.main([]) == 0
    assert suite.main(["--all"]) == 1
