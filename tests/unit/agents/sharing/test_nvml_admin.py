"""Memory limits by the real program on NVIDIA's fake library."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.sharing.nvml_admin import NvmlFault, cgroup_of
from portal.ops.paths import CHECKOUT
from tests.nvml import FakeNvml

GPU = "GPU-00000000-0000-4000-8000-000000000001"
CONTAINER = "c" * 64
ASK = """
import sys
from agents.sharing import nvml_admin
nvml_admin.cgroup_of = lambda container_id: f"/sys/fs/cgroup/docker/{container_id}"
sys.exit(nvml_admin.main(sys.argv[1:]))
"""


@pytest.fixture
def nvml(tmp_path: Path) -> FakeNvml:
    (tmp_path / "limits").mkdir()
    return FakeNvml(tmp_path)


def ask(nvml: FakeNvml, folder: Path, *words: str) -> dict[str, Any]:
    environment = os.environ | nvml.environment(gpus=2) | {"FAKE_NVML_LIMITS": str(folder / "limits")}
    done = subprocess.run(
        [sys.executable, "-c", ASK, *words], env=environment, cwd=CHECKOUT, capture_output=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_limit_is_set_for_one_container_on_one_device_and_read_back(nvml: FakeNvml, tmp_path: Path) -> None:
    nvml.do("1 used 0")
    assert ask(nvml, tmp_path, "read", GPU, CONTAINER) == {"limit": None}
    assert ask(nvml, tmp_path, "limit", GPU, CONTAINER, str(2**30)) == {"limit": 2**30}
    assert ask(nvml, tmp_path, "read", GPU, CONTAINER) == {"limit": 2**30}
    assert ask(nvml, tmp_path, "read", GPU, "d" * 64) == {"limit": None}


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        ("1 limits 1", {"limit": None}),
        ("1 limits 2", {"error": "nvmlDeviceSetMemoryLimits_v1: Insufficient Permissions", "code": 4}),
        (
            "1 limits 3",
            {"error": "The driver is too old: it has no nvmlDeviceSetMemoryLimits_v1.", "code": 13},
        ),
    ],
)
def test_driver_that_does_not_obey_is_told(
    nvml: FakeNvml, tmp_path: Path, state: str, answer: dict[str, Any]
) -> None:
    nvml.do(state)
    assert ask(nvml, tmp_path, "limit", GPU, CONTAINER, str(2**30)) == answer


def test_device_that_is_not_there_is_told(nvml: FakeNvml, tmp_path: Path) -> None:
    nvml.do("1 used 0")
    assert ask(nvml, tmp_path, "read", "GPU-9", CONTAINER)["code"] == 6


@pytest.mark.parametrize(
    "path", [f"/docker/{CONTAINER}", f"/system.slice/docker-{CONTAINER}.scope", f"/a/{CONTAINER}/inner"]
)
def test_control_group_is_that_of_the_container(tmp_path: Path, path: str) -> None:
    for pid, group in ((1, "/init"), (77, path)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(f"4:memory:/x\n0::{group}\n")
    assert cgroup_of(CONTAINER, tmp_path) == "/sys/fs/cgroup" + path.removesuffix("/inner")
    with pytest.raises(NvmlFault, match="No process"):
        cgroup_of("d" * 64, tmp_path)
