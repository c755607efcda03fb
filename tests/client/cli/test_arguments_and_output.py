"""Parsing of arguments, output of text that other users wrote, and the size of the terminal."""

import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth import InvalidInput, Mount, Refused
from berth.amounts import format_age, format_amount, format_bytes, format_slots, format_span
from berth.cli.batch import command_line
from berth.cli.copying import Address, parse_address
from berth.cli.launch_options import (
    parse_environment,
    parse_mounts,
    parse_past_instant,
    parse_resources,
    parse_seconds,
)
from berth.cli.output import show_error, show_facts, show_json, show_table
from berth.cli.safe_text import LogFilter, clean, clean_json, first_line
from berth.sessions import generated_name


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("data:models/x", Address("", "data", "models/x")),
        ("data:", Address("", "data", "")),
        ("folder:data:x", Address("folder", "data", "x")),
        ("session:train:/home/work/x", Address("session", "train", "/home/work/x")),
        ("train:a:b", Address("", "train", "a:b")),
        ("./a:b", None),
        ("/tmp/a:b", None),
        ("plain", None),
        ("../x", None),
        (":x", None),
    ],
)
def test_a_place_is_away_if_its_first_colon_comes_before_a_slash(text: str, meant: Address | None) -> None:
    assert parse_address(text) == meant


def test_mounts_are_written_as_folder_path_and_mode() -> None:
    assert parse_mounts(["a", "b:ro", "c:/home/work/in", "d:/home/work/in:ro", "e:rw"]) == [
        Mount("a"), Mount("b", "", True), Mount("c", "/home/work/in"), Mount("d", "/home/work/in", True), Mount("e"),
    ]  # fmt: skip
    for wrong in ("", ":x", "a:b:c", "a:b:c:ro"):
        with pytest.raises(InvalidInput):
            parse_mounts([wrong])


def test_variables_have_a_value_or_that_of_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "yes")
    monkeypatch.delenv("ABSENT", raising=False)
    assert parse_environment(["A=1=2", "B=", "HERE"]) == {"A": "1=2", "B": "", "HERE": "yes"}
    with pytest.raises(InvalidInput, match="ABSENT"):
        parse_environment(["ABSENT"])


@pytest.mark.parametrize(
    ("text", "seconds"), [("", None), ("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86400)]
)
def test_time_limits_have_units(text: str, seconds: int | None) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["-1", "1.5h", "abc", "1y", "1h30m", "9" * 40])
def test_other_time_limits_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_seconds(text)


def test_other_resources_are_pairs() -> None:
    assert parse_resources("1g", ["cuda=1"]) == {"cuda": "1", "shm": "1g"}
    with pytest.raises(InvalidInput):
        parse_resources("", ["cuda"])


def test_several_words_mean_themselves_and_one_word_is_a_line_of_shell() -> None:
    assert command_line(["python", "-c", "print('a b'); $x"]) == """python -c 'print('"'"'a b'"'"'); $x'"""
    assert command_line(["cd data && make"]) == "cd data && make"


def test_made_names_are_names_that_the_portal_takes() -> None:
    from sessions_app.core.request import check_name

    for image in ("berth/python:1.0", "host:5000/x/y_z@sha256:00", "größe", "", "-.-"):
        check_name(generated_name(image))


def test_amounts_are_shown_as_people_write_them() -> None:
    assert [format_bytes(n) for n in (0, 1023, 1536, 2**30, -(2**20))] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "1 GiB",
        "-1 MiB",
    ]
    assert format_amount("cpu", 500) == "0.5"
    assert format_slots({"mem": 2**30, "cuda": 1000, "cpu": 2000}) == "cpu 2, mem 1 GiB, cuda 1"
    assert [format_span(s) for s in (-1, 59, 60, 7200, 200_000)] == ["0 s", "59 s", "1 min", "2 h", "2 d"]
    assert format_age(None) == ""


HOSTILE = "a\x1b]0;title\x07\x1b[2J\r\n\t\x00\x9b31m\u202egnp.exe\x7f"


def test_names_do_nothing_to_a_terminal() -> None:
    shown = clean(HOSTILE)
    assert shown.isprintable()
    assert shown.startswith("a\\x1b]0;title\\x07")
    assert "\\u202e" in shown
    assert first_line(f"one\x1b\n{HOSTILE}") == "one\\x1b"


def test_tables_and_messages_do_nothing_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("berth.cli.output.is_terminal", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    show_table(("name",), [(HOSTILE,), ("[red]markup[/red]",)])
    show_facts({"name": HOSTILE})
    show_json([{"name": HOSTILE}])
    show_error(Refused(HOSTILE, hint=HOSTILE, fields={"a\x1b": [HOSTILE], "b": ["c"]}))
    shown = "".join(capfd.readouterr())
    assert "markup" in shown
    kept = re.sub(r"\x1b\[[0-9;]*m", "", shown)  # rich's own colours
    assert not any((ord(letter) < 32 and letter != "\n") or 127 <= ord(letter) < 160 for letter in kept)
    assert "\u202e" not in kept


@given(st.text())
def test_no_text_gets_through_with_a_control_character(text: str) -> None:
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in clean(text))


@given(st.dictionaries(st.text(), st.text()))
def test_json_means_the_same_and_does_nothing(value: dict[str, str]) -> None:
    shown = clean_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(shown) == value
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown)


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (b"\x1b[1;31mred\x1b[0m\n", b"\x1b[1;31mred\x1b[0m\n"),
        (b"50%\r100%\x1b[K\x1b[2A\n\t\b", b"50%\r100%\x1b[K\x1b[2A\n\t\b"),
        (b"\x1b]52;c;cm0gLXJm\x07", b"\\x1b]52;c;cm0gLXJm\\x07"),
        (b"\x1b[6n\x1b[?1049h\x1bP", b"\\x1b[6n\\x1b[?1049h\\x1bP"),
        (b"\xc2\x9b2Jx", b"\\xc2\\x9b2Jx"),
        ("grüße 漢字 🚢\n".encode(), "grüße 漢字 🚢\n".encode()),
        (b"\xff\xfe", b"\xff\xfe"),
    ],
)
def test_logs_keep_colours_and_progress_bars_and_nothing_else(log: bytes, shown: bytes) -> None:
    whole = LogFilter()
    assert whole(log) + whole.rest() == shown
    bytewise = LogFilter()
    assert b"".join(bytewise(bytes((byte,))) for byte in log) + bytewise.rest() == shown


@given(st.binary(max_size=200), st.integers(0, 200))
def test_a_log_is_shown_alike_however_it_is_cut(log: bytes, cut: int) -> None:
    whole, pieces = LogFilter(), LogFilter()
    assert whole(log) + whole.rest() == pieces(log[:cut]) + pieces(log[cut:]) + pieces.rest()


@pytest.mark.parametrize(
    ("typed", "instant"),
    [
        ("", ""),
        ("14:05", "2026-05-12T14:05:00+09:00"),
        ("09:30", "2026-05-13T09:30:00+09:00"),
        ("09:30+09:00", "2026-05-13T09:30:00+09:00"),
        ("2026-01-31T14:05+09:00", "2026-01-31T14:05:00+09:00"),
    ],
)
def test_a_time_of_day_is_when_it_was_that_last(typed: str, instant: str) -> None:
    seoul = timezone(timedelta(hours=9))
    told = parse_past_instant(typed, datetime(2026, 5, 13, 10, tzinfo=seoul))
    if typed:
        assert datetime.fromisoformat(told) == datetime.fromisoformat(instant)
    else:
        assert told == ""


def test_what_is_no_time_is_said() -> None:
    with pytest.raises(InvalidInput, match="“25:99” is no time"):
        parse_past_instant("25:99")


ASKING = "from berth.cli.terminal import window_size; print(*window_size())"


@pytest.mark.parametrize(
    ("window", "told"),
    [((100, 30), "100 30"), ((0, 0), "81 25")],
    ids=["the window's own", "a serial line knows none"],
)
def test_the_window_s_own_size_counts_before_what_the_environment_says(
    window: tuple[int, int], told: str
) -> None:
    ours, theirs = os.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", window[1], window[0], 0, 0))
        environment = os.environ | {"COLUMNS": "81", "LINES": "25"}
        asked = [sys.executable, "-c", ASKING]
        assert subprocess.check_output(asked, stdin=theirs, env=environment, text=True).strip() == told
    finally:
        os.close(ours)
        os.close(theirs)
