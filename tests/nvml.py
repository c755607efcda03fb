"""The fake driver library of NVIDIA, built once, and what its devices do."""

import atexit
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from portal.ops.paths import CHECKOUT


@cache
def build_library() -> Path:
    """Return the directory in which a loader finds the library under the driver's name."""
    if shutil.which("gcc") is None:
        raise AssertionError("Tests of NVIDIA's library need a C compiler: apt-get install g++")
    folder = Path(mkdtemp(prefix="berth-nvml-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source = CHECKOUT / "tests" / "doubles" / "fake_nvml.c"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]
    subprocess.run([*command, str(folder / "libnvidia-ml.so.1"), str(source)], check=True)
    return folder


class FakeNvml:
    """The library, with its notes in `folder`; see `tests/doubles/fake_nvml.c`."""

    def __init__(self, folder: Path) -> None:
        self.library = build_library()
        self._state, self._opened = folder / "state", folder / "opened"

    def do(self, *lines: str) -> None:
        """Set what the devices do from now on: "<index> <key> <value>"."""
        self._state.write_text("".join(f"{line}\n" for line in lines))

    def environment(self, gpus: int) -> dict[str, str]:
        """Return the variables of a program that finds `gpus` devices."""
        return {
            "LD_LIBRARY_PATH": str(self.library),
            "FAKE_NVML_GPUS": str(gpus),
            "FAKE_NVML_STATE": str(self._state),
            "FAKE_NVML_OPENED": str(self._opened),
        }

    @property
    def times_opened(self) -> int:
        return self._opened.stat().st_size
