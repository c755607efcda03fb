"""Paths of an installation, in the checkout and the data directory."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one installation. One checkout may serve several data directories."""

    checkout: Path
    data: Path

    @property
    def venv(self) -> Path:
        return self.checkout / ".venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def node_modules(self) -> Path:
        return self.checkout / "node_modules"

    @property
    def assets(self) -> Path:
        return self.checkout / "var" / "assets"

    @property
    def languages(self) -> Path:
        return self.checkout / "var" / "languages"

    @property
    def static(self) -> Path:
        return self.checkout / "var" / "static"

    @property
    def foreign_paths(self) -> frozenset[Path]:
        """Paths inside a data directory in the checkout that are no data: build, tests, benches."""
        made = (self.checkout / "var" / name for name in ("test", "bench"))
        return frozenset({self.assets, self.languages, self.static, *made})

    @property
    def env_file(self) -> Path:
        return self.data / "env"

    @property
    def lock_file(self) -> Path:
        """Locked by the running bin/up; contains its process id."""
        return self.data / "up.lock"

    @property
    def first_run_file(self) -> Path:
        return self.data / "first-run.json"

    @property
    def machines_file(self) -> Path:
        """Remote machines as the portal knew them last (`agents/machines/machines_file.py`)."""
        return self.data / "machines.json"

    @property
    def service_home_link(self) -> Path:
        """Link to the servers' directory if their account cannot reach the data directory."""
        return self.data / "quarters"


def find_layout(data: str | None, checkout: Path = CHECKOUT) -> Layout:
    """Return the layout for `--data`; by default the data are in `var/` of the checkout."""
    return Layout(checkout=checkout, data=Path(data).expanduser().absolute() if data else checkout / "var")


def content_hash(paths: Iterable[Path]) -> str:
    """Return a short hash of names and contents of files and directories; absent is empty."""
    digest = hashlib.sha256()
    for path in paths:
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            digest.update(f"{file.relative_to(path.parent)}\0".encode())
            digest.update(file.read_bytes() if file.exists() else b"")
    return digest.hexdigest()[:16]
