"""Each missing requirement of a machine is one clear line with its remedy."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from portal.ops.errors import PreflightFailed
from portal.ops.paths import CHECKOUT, find_layout
from portal.ops.setup import preflight


def test_an_old_python_is_named() -> None:
    with pytest.raises(PreflightFailed, match=r"Python 3\.9\.2 is too old") as caught:
        preflight.check_python((3, 9, 2))
    assert "apt-get install python3" in caught.value.fix


def test_without_a_new_enough_python_the_script_itself_says_so(tmp_path: Path) -> None:
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        fake = tmp_path / name
        fake.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
        fake.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}

    done = subprocess.run([CHECKOUT / "bin" / "up"], env=environment, capture_output=True, text=True)

    assert done.returncode == 1
    assert "Berth needs Python 3.11 or newer; this machine has: Python 3.9.2" in done.stderr
    assert "fix: " in done.stderr


def test_a_taken_port_is_named_with_another_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PreflightFailed, match=rf"Port {port} on 127\.0\.0\.1 is taken") as caught:
            preflight.check_port("127.0.0.1", port, patience_s=0)
    assert f"--port {port + 1}" in caught.value.fix


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(PreflightFailed, match=r'no address "192\.0\.2\.7"'):
        preflight.check_port("192.0.2.7", 8080)


def test_too_little_disk_is_named_with_what_is_free(tmp_path: Path) -> None:
    with pytest.raises(PreflightFailed, match=r"GB of disk are free at .*; Berth needs 1000000 GB") as caught:
        preflight.check_disk(tmp_path / "not" / "yet" / "there", least_bytes=10**15)
    assert "--data DIR" in caught.value.fix


def test_a_directory_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    for name in ("thesis.tex", "languages"):
        data = tmp_path / name
        (data / name).mkdir(parents=True)
        with pytest.raises(PreflightFailed, match="something else than data of Berth"):
            preflight.check_data_directory(find_layout(str(data)))


def test_new_empty_and_own_data_directories_are_accepted(tmp_path: Path) -> None:
    preflight.check_data_directory(find_layout(str(tmp_path / "new")))
    layout = find_layout(str(tmp_path))
    preflight.check_data_directory(layout)
    layout.env_file.touch()
    (tmp_path / "postgres").mkdir()
    preflight.check_data_directory(layout)


def test_what_tests_and_benches_leave_in_a_checkout_is_in_nobodys_way(tmp_path: Path) -> None:
    layout = find_layout(None, tmp_path)
    for made in layout.foreign_paths:
        made.mkdir(parents=True)
    preflight.check_data_directory(layout)


def test_set_up_needs_nothing_but_the_standard_library() -> None:
    code = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r}); import portal.ops.up, portal.ops.down, tests.prepare"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
