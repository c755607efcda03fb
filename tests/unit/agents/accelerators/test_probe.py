"""Look of a probe at a machine, and links of NVIDIA's devices."""

import os
import sys
from pathlib import Path

import pytest

from agents.accelerators import probe
from agents.accelerators.probe import ProbeFailed, collect, nvml, read_report, run_local_probe
from agents.accelerators.report import CommandOutput, ProbeRequest, command_key


def test_files_links_and_paths_are_those_of_the_machine_alone(tmp_path: Path) -> None:
    root = tmp_path / "machine"
    for name, text in (("card0/vendor", "0x1da3\n"), ("card1/vendor", "x" * 20_000)):
        (root / "sys/class" / name).parent.mkdir(parents=True)
        (root / "sys/class" / name).write_text(text)
    (tmp_path / "secret").write_text("not of this machine")
    (root / "sys/class/card0/device").symlink_to("../../devices/0000:01:00.0")
    os.mkfifo(root / "sys/class/pipe")  # reading it would never end
    report = run_local_probe(
        ProbeRequest(
            paths=("/sys/class/card*", "/sys/none*", "/../secret"),
            files=("/sys/class/*/vendor", "/sys/class/pipe", "/../secret", "/sys/class/card0"),
            links=("/sys/class/*/device",),
            nodes=("/sys/class/*",),
        ),
        str(root),
    )
    assert report.paths == ("/sys/class/card0", "/sys/class/card1")
    assert report.files == {
        "/sys/class/card0/vendor": "0x1da3\n",
        "/sys/class/card1/vendor": "x" * 16_384,
    }
    assert report.links == {"/sys/class/card0/device": "../../devices/0000:01:00.0"}
    assert report.nodes == {}


def test_tool_speaks_the_same_language_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "ko_KR.UTF-8")
    argv = ("sh", "-c", "echo $LC_ALL; echo noise >&2; exit 3")
    report = run_local_probe(ProbeRequest(commands=(argv, ("no-such-tool", "--json"))))
    assert report.commands == {
        command_key(argv): CommandOutput(exit_code=3, stdout="C\n"),
        "no-such-tool --json": CommandOutput(problem="missing"),
    }


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("import time; time.sleep(100)", "timeout"),
        ("import os; os.close(1); import time; time.sleep(100)", "timeout"),
        ("import os, time; os.fork() or time.sleep(100)", "timeout"),  # its child keeps the output open
        ("print('x' * 10_000_000)", "too_long"),
    ],
)
def test_tool_that_hangs_or_prints_too_much_is_ended(script: str, problem: str) -> None:
    output = collect.run([sys.executable, "-c", script], 0.5, 1_000_000)
    assert output == {"exit_code": None, "stdout": "", "problem": problem}


def test_probe_that_hangs_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "ANSWERS_WITHIN_S", 0.3)
    with pytest.raises(ProbeFailed, match="did not answer"):
        run_local_probe(ProbeRequest(commands=(("sleep", "5"),)))


@pytest.mark.parametrize(
    ("exit_code", "output"),
    [(1, b"Traceback"), (0, b""), (0, b"[1]"), (0, b"7"), (0, b'{"odd": 1}'), (0, b"x" * 9 * 2**20)],
)
def test_answer_that_is_no_report_is_a_failure(exit_code: int, output: bytes) -> None:
    with pytest.raises(ProbeFailed):
        read_report(exit_code, output)


@pytest.mark.parametrize(
    ("links", "groups"),
    [
        ((), [0, 0, 0, 0]),
        (((0, 1), (2, 3)), [1, 1, 3, 3]),
        (((1, 3),), [0, 2, 0, 2]),
        (((2, 3), (0, 1), (1, 2)), [1, 1, 1, 1]),
    ],
)
def test_devices_are_joined_by_their_links(
    monkeypatch: pytest.MonkeyPatch, links: tuple[tuple[int, int], ...], groups: list[int]
) -> None:
    def status(one: int, other: int, kind: int) -> int:
        return 0 if (one, other) in links else 5

    monkeypatch.setattr(nvml.pynvml, "nvmlDeviceGetP2PStatus", status)
    assert nvml.link_groups(range(4)) == groups
