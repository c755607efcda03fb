"""The helper that types into a program in a terminal."""

from pathlib import Path

from tests.e2e.command import TypedInto


def test_a_program_that_cannot_begin_says_why_and_ends(tmp_path: Path) -> None:
    with TypedInto([str(tmp_path / "absent")], {}, tmp_path) as program:
        program.expect("FileNotFoundError")

        assert program.exit_code() == 1
